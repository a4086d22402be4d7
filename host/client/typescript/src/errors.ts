import type { components } from "./schema.js";

type Body = components["schemas"]["ErrorBody"];

/** The gateway refuses: `code` is what programs rely on, `status` the HTTP status. */
export class GatewayError extends Error {
  readonly code: Body["error"];

  constructor(readonly status: number, readonly body: Body) {
    super(`the gateway answers ${status} (${body.error}): ${body.message}`);
    this.code = body.error;
  }
}

/** No answer came, or none that a gateway gives. The request may have been carried out; repeating it cannot act twice. */
export class NoAnswer extends Error {}

/** The time to wait is over; the operation is still in `state`. */
export class StillWaiting extends Error {
  constructor(readonly state: string) {
    super(`the operation is still \`${state}\``);
  }
}

/** The error of an answer that is not 200. */
export async function refusal(answer: Response): Promise<GatewayError | NoAnswer> {
  try {
    const body = (await answer.json()) as Body;
    if (typeof body.error === "string") return new GatewayError(answer.status, body);
  } catch {
    // Not the gateway's: a proxy's page, for example.
  }
  return new NoAnswer(`the answer has the status ${answer.status}, without the gateway's error`);
}
