/** HTTP/2: both sides of a connection. @module */
export { askHttp2, type AskHttp2Options } from "./client.ts";
export { serveHttp2, type ServeHttp2Options } from "./server.ts";
