/**
 * Compresses responses for callers that take that, as a stream, where it is worth it and nobody forbade
 * it. Bodies that come without a length pass as they are: `CompressionStream` cannot be told to flush, so
 * that parts which an application sends one by one would be held back.
 *
 * @module
 */

import * as v from "valibot";
import type { HttpRequest, HttpResponse, Plugin, PluginDefinition } from "../../src/plugin/api.ts";
import { codingFor } from "./accept_encoding.ts";

/** What a coding is called by the runtimes. */
const FORMATS = { gzip: "gzip", br: "brotli", zstd: "zstd" } as const;
const CODINGS = ["gzip", "br", "zstd"] as const;
type Coding = (typeof CODINGS)[number];

/** Each takes up to some MB while it runs; what comes above passes as it is. */
const MAX_AT_ONCE = 128;

const Config = v.strictObject({
  /** Those that may be used; the first is taken where a caller likes several alike. */
  codings: v.optional(v.pipe(v.array(v.picklist(CODINGS)), v.minLength(1)), ["zstd", "gzip"]),
  minBytes: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1)), 256),
  contentTypes: v.optional(
    v.array(v.pipe(
      v.string(),
      v.regex(/^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+$/, "is no type like text/html"),
      v.notValues(["text/event-stream", "application/grpc"], "is never compressed"),
    )),
    [
      "application/javascript",
      "application/json",
      "application/xhtml+xml",
      "application/xml",
      "image/svg+xml",
      "text/css",
      "text/html",
      "text/javascript",
      "text/plain",
      "text/xml",
    ],
  ),
});

export default {
  name: "compression",
  api: 1,
  phase: "filter",
  config: Config,
  create(host, { codings, minBytes, contentTypes }): Plugin {
    const usable = codings.filter(isKnownHere);
    if (usable.length === 0) throw new Error(`this runtime has none of ${codings.join(", ")}`);
    const types = new Set(contentTypes);
    const running = host.shared("running", () => ({ count: 0 }));
    const compressed = host.stats.counter("responses", {
      help: "Responses that were compressed, or not because too many were",
      labels: { coding: [...CODINGS, "too_many"] },
    });
    const isWorthIt = ({ body, headers }: HttpResponse) =>
      body !== null && body.length !== null && body.length >= minBytes &&
      types.has(typeOf(headers.get("content-type")));
    return {
      onRequest({ request, exchange }, next) {
        if (request.method === "HEAD" || isForbidden(request)) return next();
        const coding = codingFor(request.headers.all("accept-encoding"), usable);
        return next({
          response(response) {
            if (!isWorthIt(response) || isAsItMustBe(response)) return response;
            const varied = response.with({ headers: { add: varyOf(response) } });
            if (coding === undefined) return varied;
            if (running.count >= MAX_AT_ONCE) {
              compressed.add(1, { coding: "too_many" });
              return varied;
            }
            running.count++;
            exchange.onEnd(() => running.count--);
            compressed.add(1, { coding });
            return encoded(varied, coding);
          },
        });
      },
    };
  },
} satisfies PluginDefinition<typeof Config>;

function isKnownHere(coding: Coding): boolean {
  try {
    return new CompressionStream(FORMATS[coding] as CompressionFormat) !== undefined;
  } catch {
    // Which of them there are differs between runtimes, and there is no other way to ask.
    return false;
  }
}

function isForbidden({ headers }: HttpRequest | HttpResponse): boolean {
  return headers.all("cache-control").some((value) => /\bno-transform\b/i.test(value));
}

/** Sums and ranges of bytes would not fit any more. */
const OF_BYTES = ["content-encoding", "content-range", "content-md5", "digest", "content-digest"];

function isAsItMustBe(response: HttpResponse): boolean {
  const { status, headers } = response;
  return status === 204 || status === 206 || status === 304 || isForbidden(response) ||
    OF_BYTES.some((name) => headers.get(name) !== undefined);
}

function typeOf(contentType = ""): string {
  return (contentType.split(";")[0] ?? "").trim().toLowerCase();
}

function varyOf({ headers }: HttpResponse): Readonly<Record<string, string>> {
  const names = headers.all("vary").join(",").toLowerCase().split(/[\s,]+/);
  return names.includes("accept-encoding") || names.includes("*")
    ? {}
    : { vary: "accept-encoding" };
}

function encoded(response: HttpResponse, coding: Coding): HttpResponse {
  const stream = response.body?.stream() as ReadableStream<Uint8Array<ArrayBuffer>>;
  const etag = response.headers.get("etag");
  return response.with({
    body: stream.pipeThrough(new CompressionStream(FORMATS[coding] as CompressionFormat)),
    headers: {
      // A range would be one of other bytes.
      remove: ["accept-ranges"],
      set: {
        "content-encoding": coding,
        // The same thing in other bytes (RFC 9110 8.8.1).
        ...(etag?.startsWith('"') && { etag: `W/${etag}` }),
      },
    },
  });
}
