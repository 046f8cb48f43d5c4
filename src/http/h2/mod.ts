/** HTTP/2: both sides of a connection. @module */
export { type Http2ClientOptions, openHttp2Client } from "./client.ts";
export { serveHttp2, type ServeHttp2Options } from "./server.ts";
