/** Sends a request over HTTP/1.1 or HTTP/2, and returns everything that came back. @module */

import { Buffer } from "node:buffer";
import * as http2 from "node:http2";
import { linesOf, type Message, messageOf } from "./planned_app.ts";
import type { Place } from "./echo.ts";
import { RawClient, statusOf } from "./http_raw.ts";
import { deadline } from "../process/process.ts";

export interface WrittenRequest {
  readonly method: string;
  readonly path: string;
  readonly fields: readonly string[];
  readonly body: string;
  /** Its length is not announced. */
  readonly streamed: boolean;
  readonly trailers: readonly string[];
  readonly upgrade: boolean;
  /** HTTP/1.1 alone: `HTTP/1.1` and `app.test` if absent; `null`: no host is sent. */
  readonly version?: string;
  readonly host?: string | null;
}

/** The response; `ending`: `complete`, or how it broke. */
export interface ReceivedResponse extends Message {
  readonly informational: readonly string[];
  readonly ending: string;
}

const TIMEOUT_MS = 20_000;

export async function sendHttp1(place: Place, ask: WrittenRequest): Promise<ReceivedResponse> {
  await using client = await RawClient.open(place);
  const { method, path, fields, body, streamed, trailers, upgrade } = ask;
  const { version = "HTTP/1.1", host = "app.test" } = ask;
  const isExpecting = fields.includes("expect: 100-continue");
  const length = streamed
    ? ["transfer-encoding: chunked"]
    : body !== "" || method === "POST"
    ? [`content-length: ${body.length}`]
    : [];
  const switching = [
    "connection: Upgrade",
    "upgrade: websocket",
    "sec-websocket-version: 13",
    "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
  ];
  const lines = [
    `${method} ${path} ${version}`,
    ...(host === null ? [] : [`host: ${host}`]),
    ...fields,
    ...length,
    ...(upgrade ? switching : []),
  ];
  const written = streamed
    ? `${body === "" ? "" : `${body.length.toString(16)}\r\n${body}\r\n`}0\r\n${
      trailers.map((line) => `${line}\r\n`).join("")
    }\r\n`
    : body;
  client.send(`${lines.join("\r\n")}\r\n\r\n${isExpecting ? "" : written}`);
  const informational: string[] = [];
  for (;;) {
    let answer;
    try {
      answer = await client.response({ to: method });
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      const [, raw] = /^Connection ended in a response: (.*)$/s.exec(text) ?? [];
      if (raw === undefined) throw error;
      const [head = "", ...rest] = (JSON.parse(raw) as string).split("\r\n\r\n");
      const cut = { head, body: rest.join("\r\n\r\n"), trailers: "", raw: "" };
      return {
        ...messageOf(cut),
        first: `${statusOf(cut)}`,
        informational,
        ending: "cut",
      };
    }
    const status = statusOf(answer);
    if (status >= 200 || status === 101) {
      const message = { ...messageOf(answer), first: `${status}` };
      let echoed = "";
      if (status === 101) {
        client.send("ping");
        echoed = await client.bytes(4);
      }
      return { ...message, body: message.body + echoed, informational, ending: "complete" };
    }
    informational.push([String(status), ...messageOf(answer).fields].join(" | "));
    if (status === 100) client.send(written);
  }
}

export async function sendHttp2(place: Place, ask: WrittenRequest): Promise<ReceivedResponse> {
  const session = http2.connect(`http://${place.host}:${place.port}`);
  try {
    const got = await deadline(askOn(session, ask), TIMEOUT_MS);
    if (!got) throw new Error(`No answer in time to ${ask.path}`);
    return got;
  } finally {
    session.destroy();
  }
}

function askOn(session: http2.ClientHttp2Session, ask: WrittenRequest): Promise<ReceivedResponse> {
  const { method, path, fields, body, streamed, trailers } = ask;
  return new Promise((resolve) => {
    const informational: string[] = [];
    let [first, answered, end]: [string, string[], string[]] = ["0", [], []];
    const chunks: Buffer[] = [];
    const over = (ending: string) =>
      resolve({
        first,
        fields: answered,
        body: Buffer.concat(chunks).toString("latin1"),
        trailers: end,
        informational,
        ending,
      });
    session.on("error", () => over("no connection"));
    const own = fields.map((field) => field.split(": ") as [string, string]);
    const hasBody = body !== "" || streamed;
    const stream = session.request({
      ":method": method,
      ":path": path,
      ":authority": "app.test",
      ":scheme": "http",
      ...Object.fromEntries(own),
      ...(hasBody && !streamed ? { "content-length": String(body.length) } : {}),
    }, { endStream: !hasBody, waitForTrailers: trailers.length > 0 });
    stream.on("headers", (head: http2.IncomingHttpHeaders, _: number, raw: string[]) => {
      const rest = linesOf(raw).filter((line) => !line.startsWith(":"));
      informational.push([String(head[":status"]), ...rest].join(" | "));
    });
    stream.on("response", (head: http2.IncomingHttpHeaders, _: number, raw: string[]) => {
      first = String(head[":status"]);
      answered = linesOf(raw).filter((line) => !line.startsWith(":"));
    });
    stream.on("trailers", (_: unknown, __: number, raw: string[]) => end = linesOf(raw));
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("wantTrailers", () =>
      stream.sendTrailers(
        Object.fromEntries(trailers.map((line) => line.split(": ") as [string, string])),
      ));
    stream.on("error", () => {});
    stream.on("close", () => over(stream.rstCode === 0 ? "complete" : `reset ${stream.rstCode}`));
    if (hasBody) stream.end(Buffer.from(body, "latin1"));
  });
}
