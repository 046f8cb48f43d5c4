/**
 * An application that does what the path of a request says, over HTTP/1.1 or HTTP/2, and keeps what
 * reached it: for stories that compare what two proxies make of the same request.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import * as http2 from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import type { Place } from "./echo.ts";
import { answerOf, type RawMessage, startRawOrigin } from "./http_raw.ts";

/** A message as one side had it; fields as `name: value` in their order, names in lower case. */
export interface Message {
  /** `GET /path` or a status. */
  readonly first: string;
  readonly fields: readonly string[];
  readonly body: string;
  readonly trailers: readonly string[];
}

/** A field that tells requests apart, and is not among those that were seen. */
export const ASKED = "x-asked";

export interface AskedApp extends Place, AsyncDisposable {
  /** The request that had this value of {@link ASKED}. */
  seen(asked: string): Message | undefined;
}

/** What it answers, over either protocol; nothing for what is not answered. */
interface Plan {
  readonly status: number;
  readonly fields: readonly string[];
  /** Several: of a length that is not said beforehand. */
  readonly body: readonly string[];
  readonly trailers?: readonly string[];
  /** It breaks off after its body. */
  readonly breaks?: true;
  /** Before it. */
  readonly hints?: true;
}

const GRPC = "content-type: application/grpc";
/** `hi` as a message of gRPC. */
export const GRPC_MESSAGE = "\0\0\0\0\x02hi";
const PLAIN: Plan = {
  status: 200,
  fields: ["content-type: text/plain", "x-app: one", "x-app: two"],
  body: ["hello"],
};

const PLANS: Readonly<Record<string, Plan>> = {
  "/own": {
    ...PLAIN,
    fields: [
      ...[
        "server: own/1",
        "date: Mon, 01 Jan 2024 00:00:00 GMT",
        "x-envoy-upstream-service-time: 9",
      ],
      ...["via: own", "x-request-id: own", "x-envoy-own: 1", "x-envoy-overloaded: true"],
      ...["set-cookie: a=1", "set-cookie: b=2"],
    ],
  },
  "/pieces": { ...PLAIN, body: ["one,", "two,", "three"] },
  "/trailers": { ...PLAIN, body: ["one,", "two"], trailers: ["x-sum: 1", "x-end: 2"] },
  "/hints": { ...PLAIN, hints: true },
  "/204": { ...PLAIN, status: 204, body: [] },
  "/304": { ...PLAIN, status: 304, body: [], fields: ['etag: "1"'] },
  "/404": { ...PLAIN, status: 404 },
  "/500": { ...PLAIN, status: 500 },
  "/breaks": { ...PLAIN, body: ["some"], breaks: true },
  "/drops": { ...PLAIN, status: 0, body: [], breaks: true },
  "/unary": { status: 200, fields: [GRPC], body: [GRPC_MESSAGE], trailers: ["grpc-status: 0"] },
  "/stream": {
    ...{ status: 200, fields: [GRPC, "x-app: one"], body: [GRPC_MESSAGE, GRPC_MESSAGE] },
    trailers: ["grpc-status: 0", "grpc-message: well", "x-end: 1"],
  },
  "/unavailable": { status: 200, fields: [GRPC, "grpc-status: 14"], body: [] },
  "/status": {
    ...{ status: 200, fields: [GRPC, "grpc-status: 5", "grpc-message: no%20such"], body: [] },
  },
};

function planOf(path: string, body: string): Plan | undefined {
  const [name = ""] = path.split("?");
  if (name === "/slow") return undefined;
  return PLANS[name] ?? (name === "/echo" ? { ...PLAIN, body: [body] } : PLAIN);
}

export async function startAskedApp(
  { protocol, host }: { readonly protocol: "http" | "http2"; readonly host: string },
): Promise<AskedApp> {
  const seen = new Map<string, Message>();
  const keep = (message: Message) => {
    const fields = message.fields.filter((field) => !field.startsWith(`${ASKED}: `));
    const asked = message.fields.find((field) => !fields.includes(field)) ?? "";
    seen.set(asked.slice(ASKED.length + 2), { ...message, fields });
  };
  const own = protocol === "http" ? await startHttp1(host, keep) : await startHttp2(host, keep);
  return { ...own, seen: (asked) => seen.get(asked) };
}

type Keep = (message: Message) => void;
type Started = Place & AsyncDisposable;

function startHttp1(host: string, keep: Keep): Promise<Started> {
  return startRawOrigin((request, socket) => {
    const [method, path = ""] = request.head.split(" ");
    const message = messageOf(request);
    keep({ ...message, first: `${method} ${path}` });
    if (/^upgrade: websocket$/im.test(request.head)) return void switchProtocols(socket);
    const plan = planOf(path, message.body);
    return plan && bytesOf(plan, method ?? "", socket);
  }, { host });
}

/** A message of HTTP/1.1; the first line is left to the caller. */
export function messageOf({ head, body, trailers }: RawMessage): Omit<Message, "first"> {
  const lines = (text: string) =>
    text.split("\r\n").filter((line) => line !== "")
      .map((line) => line.replace(/^[^:]+/, (name) => name.toLowerCase()));
  return { fields: lines(head).slice(1), body, trailers: lines(trailers) };
}

function switchProtocols(socket: Socket): void {
  socket.write(
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
      "X-App: one\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
  );
  socket.removeAllListeners("data");
  socket.on("data", (chunk: Buffer) => socket.write(chunk));
}

function bytesOf(plan: Plan, method: string, socket: Socket): string | undefined {
  const { status, fields, body, trailers = [], breaks, hints } = plan;
  if (status === 0) return void socket.destroy();
  const head = [`HTTP/1.1 ${status} Some`, ...fields].join("\r\n");
  const before = hints ? "HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n" : "";
  if (status === 204 || status === 304) return `${head}\r\n\r\n`;
  const whole = body.join("");
  if (breaks) {
    socket.end(`${head}\r\nContent-Length: 100\r\n\r\n${whole}`);
    return undefined;
  }
  if (method === "HEAD") return `${before}${head}\r\nContent-Length: ${whole.length}\r\n\r\n`;
  if (body.length < 2 && trailers.length === 0) return before + answerOf(whole, head);
  const chunks = body.map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`).join("");
  const end = trailers.map((line) => `${line}\r\n`).join("");
  return `${before}${head}\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n${end}\r\n`;
}

async function startHttp2(host: string, keep: Keep): Promise<Started> {
  const sessions = new Set<http2.ServerHttp2Session>();
  const server = http2.createServer();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
    session.on("error", () => session.destroy());
  });
  server.on(
    "stream",
    (
      stream: http2.ServerHttp2Stream,
      head: http2.IncomingHttpHeaders,
      _flags: number,
      raw: string[],
    ) => {
      const chunks: Buffer[] = [];
      let trailers: string[] = [];
      stream.on("error", () => {});
      stream.on("trailers", (_: unknown, __: number, raw: string[]) => trailers = linesOf(raw));
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("end", () => {
        const path = String(head[":path"]);
        const body = Buffer.concat(chunks).toString("latin1");
        const first = `${head[":method"]} ${path}`;
        keep({ first, fields: linesOf(raw), body, trailers });
        const plan = planOf(path, body);
        if (plan && !stream.destroyed) respond(stream, plan, head[":method"] === "HEAD");
      });
    },
  );
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, host, resolve);
  });
  return {
    ...{ host, port: (server.address() as AddressInfo).port },
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const session of sessions) session.destroy();
      await closed;
    },
  };
}

function respond(stream: http2.ServerHttp2Stream, plan: Plan, isHead: boolean): void {
  const { status, fields, body, trailers = [], breaks, hints } = plan;
  if (status === 0) return stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
  if (hints) stream.additionalHeaders({ ":status": 103, link: "</a>" });
  const whole = body.join("");
  const isMeasured = body.length === 1 && trailers.length === 0;
  stream.respond({
    ":status": status,
    ...headersOf(fields),
    ...(isMeasured ? { "content-length": breaks ? "100" : String(whole.length) } : {}),
  }, {
    waitForTrailers: trailers.length > 0,
    endStream: isHead || body.length === 0,
  });
  if (isHead || body.length === 0) return;
  stream.on("wantTrailers", () => stream.sendTrailers(headersOf(trailers)));
  for (const piece of body) stream.write(Buffer.from(piece, "latin1"));
  if (breaks) setImmediate(() => stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR));
  else stream.end();
}

function headersOf(fields: readonly string[]): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = {};
  for (const field of fields) {
    const at = field.indexOf(": ");
    const [name, value] = [field.slice(0, at), field.slice(at + 2)];
    const before = headers[name];
    headers[name] = before === undefined ? value : [before, value].flat();
  }
  return headers;
}

/** Names and values by turns. */
export function linesOf(raw: readonly string[]): string[] {
  return raw.flatMap((name, at) => at % 2 === 0 ? [`${name}: ${raw[at + 1]}`] : []);
}
