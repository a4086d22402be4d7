/** Time limit for an answer, in milliseconds: above the gateway's own. */
const ANSWER_WITHIN_MS = 75_000;

const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 10_000;

/** The gateway has not carried the request out, and says so. */
const REPEATED = [429, 503];

/** Answers a token, for each request anew. */
export type Token = string | (() => string | Promise<string>);

/**
 * A `fetch` that repeats a request that gets no answer, 429 or 503, with growing waits, until `forMs` milliseconds have passed. Every
 * request of the gateway may be repeated: a submission has an idempotency key, and an action that was taken answers the same again.
 */
export function repeating(send: typeof fetch, token: Token | undefined, forMs: number) {
  return async (request: Request): Promise<Response> => {
    const began = Date.now();
    for (let wait = FIRST_WAIT_MS; ; wait = Math.min(2 * wait, LONGEST_WAIT_MS)) {
      const attempt = await once(send, request, token).then(whole).catch((error: unknown) => ({ error }));
      if (attempt instanceof Response && !REPEATED.includes(attempt.status)) return attempt;
      if (request.signal.aborted) throw request.signal.reason;
      const pause = Math.min(Math.max(asked(attempt) ?? wait, FIRST_WAIT_MS), LONGEST_WAIT_MS);
      if (Date.now() - began + pause > forMs) {
        if (attempt instanceof Response) return attempt;
        throw attempt.error;
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  };
}

/** Sends a request once, with the token, and follows no redirect: the token is for the gateway alone. */
export async function once(send: typeof fetch, request: Request, token: Token | undefined, limitMs = ANSWER_WITHIN_MS): Promise<Response> {
  const headers = new Headers(request.headers);
  if (token !== undefined) headers.set("authorization", `Bearer ${typeof token === "string" ? token : await token()}`);
  const signal = limitMs === Infinity ? request.signal : AbortSignal.any([request.signal, AbortSignal.timeout(limitMs)]);
  return send(new Request(request.clone(), { headers, signal, redirect: "error" }));
}

/** The answer with its body: one that breaks off is no answer. */
async function whole(answer: Response): Promise<Response> {
  return new Response(await answer.arrayBuffer(), answer);
}

/** The wait that the gateway asks for, in milliseconds. */
function asked(attempt: Response | { error: unknown }): number | undefined {
  const seconds = attempt instanceof Response ? attempt.headers.get("retry-after") : null;
  return seconds !== null && /^[0-9]+$/.test(seconds) ? 1000 * Number(seconds) : undefined;
}
