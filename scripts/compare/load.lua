-- What wrk sends, from the file in BODY; and its result as JSON, with times in microseconds.
local file = assert(io.open(assert(os.getenv("BODY"))))
wrk.method, wrk.body = "POST", file:read("*a")
wrk.headers["content-type"] = "application/json"
file:close()

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format('\n{"requests": %d, "duration_us": %d, "p50_us": %.0f, "p99_us": %.0f, "errors": %d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
