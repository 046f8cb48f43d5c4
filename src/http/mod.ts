export {
  ClientPool,
  type ClientPoolOptions,
  type PoolEvents,
  type PoolFault,
  type ReachHandler,
} from "./client/client_pool.ts";
export {
  areRoots,
  type DialCredentials,
  type DialEngine,
  type DialFailure,
  dialFailureOf,
  dialServer,
  type DialTls,
  type ReachedServer,
  serverJudge,
  serverNameMatcher,
  whyEnded,
} from "./client/dial_server.ts";
export type { ClientVersion, KeptConnection, Reached } from "./client/kept_connection.ts";
export { type DownstreamFacts, ExchangeRecord, NOT_REACHED } from "./access_log/exchange_record.ts";
export {
  type CompiledFormat,
  compileFormat,
  DEFAULT_TEXT,
  type FormatLine,
  type LogFormat,
} from "./access_log/line_format.ts";
export type { ProcessFacts } from "./access_log/record_values.ts";
export { FLAG, type FlagName, flagsText } from "./access_log/response_flags.ts";
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
export { type Http1ClientOptions, openHttp1Client } from "./h1/client_connection.ts";
export { type HeadFault } from "./h1/parse_fields.ts";
export { readRequest } from "./h1/read_request.ts";
export { type Http1ServerOptions, serveHttp1 } from "./h1/server_connection.ts";
export {
  addField,
  FIELD,
  fieldOf,
  type Fields,
  fieldsOf,
  hasAlias,
  type HttpVersion,
  ownTrailers,
  removeAliases,
  removeField,
  type RequestHead,
  type ResponseHead,
  setField,
  UNKNOWN_LENGTH,
} from "./head.ts";
export {
  HELD_LIMIT_BYTES,
  HeldAccount,
  HeldBytes,
  heldByThread,
  type HeldOwner,
  HeldShare,
} from "./held_bytes.ts";
export { isPlainName, isToken, isValue } from "./field_names.ts";
export { DEFAULT_HTTP_LIMITS, type HttpLimits } from "./limits.ts";
export {
  DEFAULT_PATH_RULES,
  normalizePath,
  type PathRefusal,
  type PathRules,
  pathWithoutQuery,
  ruleUnderscores,
} from "./path.ts";
export { forwardRequest } from "./forwarded.ts";
export {
  decodeGrpcMessage,
  encodeGrpcMessage,
  GRPC_STATUS,
  grpcStatusOf,
  httpStatusOf,
  isGrpc,
  readGrpcStatus,
  trailersOnly,
} from "./grpc.ts";
export { type RandomFill, RequestIds } from "./request_id.ts";
export { REDIRECT, type ReplyOptions, sendReply, UNANSWERED } from "./reply.ts";
export { ClientCertElements, forwardClientCert, namedCallerElement } from "./client_cert.ts";
export * from "./h2/mod.ts";
export {
  type ChangeFields,
  compileChanges,
  compileFieldValue,
  type HeaderChanges,
  headerFault,
  type HeaderText,
  ownNamesOf,
} from "./header_changes.ts";
export { HostTable } from "./host_table.ts";
export { ANOTHER_ORIGIN, type BrowserRequest, type OwnHosts, refuseWebPage } from "./web_pages.ts";
export { VersionSniffer } from "./version_sniffer.ts";
