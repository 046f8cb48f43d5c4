/**
 * An application that behaves as the path of a request demands, over HTTP/1.1 or HTTP/2, and keeps the
 * requests that reached it: for stories that compare what two proxies make of the same request.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import * as http2 from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import type { Place, ServerOptions } from "./echo.ts";
import { PLAN, type Plan, planOf } from "./response_plans.ts";
import { answerOf, type RawMessage, startRawOrigin } from "./http_raw.ts";

/** A message as one side had it; fields as `name: value` in their order, names in lower case. */
export interface Message {
  /** `GET /path` or a status. */
  readonly first: string;
  readonly fields: readonly string[];
  readonly body: string;
  readonly trailers: readonly string[];
}

/** A field that identifies a request, and is not among those that were recorded. */
export const REQUEST_ID = "x-asked";

/** Says which application answered, where it has a name. */
export const FROM = "x-from";

/** A request, by the application that it came to. */
export interface SeenMessage extends Message {
  readonly at: string;
}

/**
 * The messages that reached some applications, every try at a request, by the value of {@link REQUEST_ID}.
 */
export type Seen = Map<string, SeenMessage[]>;

export interface PlannedApp extends Place, AsyncDisposable {
  /** The request that had this value of {@link REQUEST_ID}; the first try at it. */
  seen(asked: string): Message | undefined;
}

interface PlannedAppOptions extends Pick<ServerOptions, "tls"> {
  readonly protocol: "http" | "http2";
  readonly host: string;
  /** Where several keep what they saw in one place. */
  readonly name?: string;
  readonly seen?: Seen;
}

export async function startPlannedApp(options: PlannedAppOptions): Promise<PlannedApp> {
  const { protocol, name = "", seen = new Map() } = options;
  const answer = (message: Message): Plan | undefined => {
    const valueOf = (field: string) =>
      message.fields.find((line) => line.startsWith(`${field}: `))?.slice(field.length + 2);
    const asked = valueOf(REQUEST_ID) ?? "";
    const tries = seen.get(asked) ?? [];
    seen.set(asked, tries);
    const attempt = tries.length;
    const fields = message.fields.filter((line) => !HIDDEN.some((one) => line.startsWith(one)));
    tries.push({ ...message, fields, at: name });
    const [, path = ""] = message.first.split(" ");
    const plan = planOf(path, { body: message.body, plan: valueOf(PLAN), attempt });
    return plan && name !== "" ? { ...plan, fields: [...plan.fields, `${FROM}: ${name}`] } : plan;
  };
  const own = protocol === "http"
    ? await startHttp1(options, answer)
    : await startHttp2(options, answer);
  return { ...own, seen: (asked) => seen.get(asked)?.[0] };
}

const HIDDEN = [`${REQUEST_ID}: `, `${PLAN}: `];

type Answer = (message: Message) => Plan | undefined;
type Started = Place & AsyncDisposable;

function startHttp1(options: PlannedAppOptions, answer: Answer): Promise<Started> {
  return startRawOrigin((request, socket) => {
    const [method = "", path = ""] = request.head.split(" ");
    const plan = answer({ ...messageOf(request), first: `${method} ${path}` });
    if (/^upgrade: websocket$/im.test(request.head)) return void switchProtocols(socket);
    if (!plan?.waitMs) return plan && bytesOf(plan, method, socket);
    // A connection carries one request at a time.
    const bytes = bytesOf(plan, method, socket) ?? "";
    const at = plan.body.length > 1 ? bytes.indexOf("\r\n\r\n") + 4 : 0;
    setTimeout(() => socket.write(bytes.slice(at)), plan.waitMs);
    return bytes.slice(0, at);
  }, options);
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

async function startHttp2({ host }: PlannedAppOptions, answer: Answer): Promise<Started> {
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
        const plan = answer({ first, fields: linesOf(raw), body, trailers });
        const begin = () => {
          if (plan && !stream.destroyed) respond(stream, plan, head[":method"] === "HEAD");
        };
        if (plan?.waitMs) setTimeout(begin, plan.waitMs);
        else begin();
      });
    },
  );
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, host, resolve);
  });
  return {
    host,
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const session of sessions) session.destroy();
      await closed;
    },
  };
}

function respond(stream: http2.ServerHttp2Stream, plan: Plan, isHead: boolean): void {
  const { status, fields, body, trailers = [], breaks, hints } = plan;
  if (status === 0) {
    return stream.close(plan.resetCode ?? http2.constants.NGHTTP2_INTERNAL_ERROR);
  }
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
