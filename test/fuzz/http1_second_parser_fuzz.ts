/**
 * Requests of HTTP/1.1 as a second strict parser reads them, the runtime's own llhttp: whatever ours
 * accepts, that reads in the same way, or the difference is listed here with its reason.
 *
 * @module
 */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import process from "node:process";
import { FIELD } from "../../src/http/mod.ts";
import { type ReadRequest, readRequests, REQUESTS, WORDS } from "../kit/wire/http1_requests.ts";
import type { FuzzTarget } from "./fuzz.ts";

interface Parser {
  initialize(kind: number, resource: object, maxHeadBytes: number, lenient: number): void;
  execute(bytes: Uint8Array): number | Error;
  [callback: number]: (...args: never[]) => unknown;
}
interface Binding {
  readonly HTTPParser: {
    new (): Parser;
    readonly REQUEST: number;
    readonly kOnHeaders: number;
    readonly kOnHeadersComplete: number;
    readonly kOnBody: number;
    readonly kOnMessageComplete: number;
  };
  readonly methods: readonly string[];
}

/** Both runtimes have the parser that `node:http` is built on. */
const { HTTPParser, methods } = (process as unknown as { binding(name: string): Binding })
  .binding("http_parser");

interface SecondRequest {
  readonly method: string;
  readonly url: string;
  readonly fields: string[];
  readonly upgrade: boolean;
  body: string;
  trailers: string[];
  complete: boolean;
}

interface SecondReading {
  readonly requests: readonly SecondRequest[];
  /** `CODE: reason`; `""`: nothing was wrong. */
  readonly fault: string;
}

function readAgain(input: Uint8Array): SecondReading {
  const parser = new HTTPParser();
  const requests: SecondRequest[] = [];
  // The parts of a head, or of trailers, that the parser delivers piece by piece.
  let parts: string[] = [];
  let urlPart = "";
  const current = () => requests[requests.length - 1];
  parser.initialize(HTTPParser.REQUEST, {}, 0, 0);
  parser[HTTPParser.kOnHeaders] = (fields: string[], url: string) => {
    parts.push(...fields);
    urlPart += url;
  };
  parser[HTTPParser.kOnHeadersComplete] = (
    _major: number,
    _minor: number,
    fields: string[] | undefined,
    method: number,
    url: string | undefined,
    _status: unknown,
    _words: unknown,
    upgrade: boolean,
  ) => {
    requests.push({
      method: methods[method] ?? "",
      url: url ?? urlPart,
      fields: fields ?? parts,
      upgrade,
      body: "",
      trailers: [],
      complete: false,
    });
    parts = [];
    urlPart = "";
    return 0;
  };
  parser[HTTPParser.kOnBody] = (bytes: Uint8Array) => {
    const request = current();
    if (request) request.body += Buffer.from(bytes).toString("latin1");
  };
  parser[HTTPParser.kOnMessageComplete] = () => {
    const request = current();
    if (!request) return;
    request.complete = true;
    request.trailers = parts;
    parts = [];
  };
  const result = parser.execute(Buffer.from(input));
  const { code = "", reason = "" } = result as { code?: string; reason?: string };
  return { requests, fault: typeof result === "number" ? "" : `${code}: ${reason}` };
}

/**
 * Why the second parser may refuse what ours reads. It knows a list of methods; a proxy passes on those
 * that it does not know. It looks at the grammar of extensions of chunks, which ours does not pass on. It
 * takes a TAB after a coding for a part of it, which is white space (RFC 9110 5.5) and not passed on.
 */
const STRICTER = /^HPE_INVALID_METHOD|^HPE_INVALID_TRANSFER_ENCODING|chunk extension/i;

/** The fields that belong to the connection, which our parser does not pass on. */
const OWN = new Set([
  "host",
  "content-length",
  "transfer-encoding",
  "connection",
  "upgrade",
  "te",
  "expect",
  "keep-alive",
  "proxy-connection",
  "http2-settings",
]);

function passedOn(fields: readonly string[]): string[] {
  const named = new Set<string>();
  const all: [string, string][] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const name = (fields[i] ?? "").toLowerCase();
    const value = fields[i + 1] ?? "";
    all.push([name, value]);
    if (name !== "connection") continue;
    for (const option of value.split(",")) named.add(option.trim().toLowerCase());
  }
  return all.filter(([name]) => !OWN.has(name) && !named.has(name)).map((field) =>
    field.join(": ")
  );
}

function ownFields(fields: readonly string[]): string[] {
  const texts: string[] = [];
  for (let i = 0; i < fields.length; i += FIELD) {
    if (fields[i] !== "te") texts.push(`${fields[i]}: ${fields[i + 1]}`);
  }
  return texts;
}

function compare(request: ReadRequest, second: SecondRequest, fault: string): void {
  const { head, body, trailers, complete } = request;
  assert.equal(second.method, head.method);
  assert.ok(head.path === "" || head.path === "*" || second.url.endsWith(head.path.slice(1)));
  assert.deepEqual(passedOn(second.fields), ownFields(head.fields));
  if (!complete) return;
  if (!second.complete) return assert.match(fault, STRICTER);
  assert.equal(second.body, body);
  if (trailers) assert.deepEqual(passedOn(second.trailers), ownFields(trailers));
}

export const target: FuzzTarget = {
  name: "http1_second_parser",
  corpus: REQUESTS,
  dictionary: WORDS,
  limitBytes: 4_096,
  limitMs: 200,
  run(input) {
    const { requests } = readRequests(input, []);
    if (requests.length === 0) return;
    const second = readAgain(input);
    for (const [index, request] of requests.entries()) {
      const same = second.requests[index];
      if (!same) {
        assert.match(second.fault, STRICTER);
        return;
      }
      compare(request, same, second.fault);
      // The rest is a tunnel's for one parser, and for the other only once it has agreed.
      if (same.upgrade) return;
    }
  },
};
