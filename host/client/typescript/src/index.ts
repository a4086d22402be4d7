/** A client of operation-gateway. */
export { type Check, type Report, verifyEvidence } from "./evidence.js";
export { GatewayError, NoAnswer, StillWaiting } from "./errors.js";
export { type Event, type EventFilter } from "./events.js";
export { Gateway, type Operation, type Options, type Schemas } from "./gateway.js";
