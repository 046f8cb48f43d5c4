export type {
  ClientConnection,
  ClientEvents,
  ClientExchange,
  HttpEnd,
  Message,
  MessageEvents,
  ResetReason,
  ResponseEvents,
  ServerConnection,
  ServerEvents,
  ServerExchange,
} from "./exchange.ts";
export { askHttp1, type Http1ClientOptions } from "./h1/client_connection.ts";
export { type Http1ServerOptions, serveHttp1 } from "./h1/server_connection.ts";
export {
  addField,
  FIELD,
  fieldOf,
  type Fields,
  fieldsOf,
  type HttpVersion,
  removeField,
  type RequestHead,
  type ResponseHead,
  setField,
  UNKNOWN_LENGTH,
} from "./head.ts";
export { DEFAULT_HTTP_LIMITS, type HttpLimits } from "./limits.ts";
