/**
 * Compresses responses as a stream if the caller accepts it, the response is worth it and no header forbids
 * it. Bytes that an application sends piece by piece are not held back.
 *
 * @module
 */

import * as v from "valibot";
import type {
  Body,
  HeaderChange,
  HttpRequest,
  HttpResponse,
  Plugin,
  PluginDefinition,
} from "../../src/plugin/api.ts";
import { codingFor } from "./accept_encoding.ts";

const CODINGS = ["gzip", "br", "zstd"] as const;

/** Each takes up to 1 MB of memory; more responses at the same time pass uncompressed. */
const MAX_AT_ONCE = 128;

/** gRPC compresses each message itself, and has trailers. gRPC-Web has neither. */
const GRPC = /^application\/grpc(\+|$)/;

const Config = v.strictObject({
  /** Codings that may be used; of equally preferred ones the first is used. */
  codings: v.optional(v.pipe(v.array(v.picklist(CODINGS)), v.minLength(1)), ["zstd", "gzip"]),
  minBytes: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1)), 256),
  contentTypes: v.optional(
    v.array(v.pipe(
      v.string(),
      v.regex(/^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+$/, "is no type like text/html"),
      v.check((type) => !GRPC.test(type), "is never compressed"),
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
    const types = new Set(contentTypes);
    const running = host.shared("running", () => ({ count: 0 }));
    const compressed = host.stats.counter("responses", {
      help: "Responses that were compressed, or sent as they were because too many were under way",
      labels: { coding: [...CODINGS, "too_many"] },
    });
    const isWorthIt = ({ headers }: HttpResponse, { length }: Body) =>
      (length ?? minBytes) >= minBytes && types.has(typeOf(headers.get("content-type")));
    const isOver = () => void running.count--;
    return {
      onRequest({ request, exchange }, next) {
        if (request.method === "HEAD" || isForbidden(request)) return next();
        const coding = codingFor(request.headers.all("accept-encoding"), codings);
        return next({
          response(response) {
            const { body } = response;
            if (!body || !isWorthIt(response, body) || isAsItMustBe(response)) return response;
            const varied = response.with({ headers: { add: varyOf(response) } });
            if (coding === undefined) return varied;
            if (running.count >= MAX_AT_ONCE) {
              compressed.add(1, { coding: "too_many" });
              return varied;
            }
            running.count++;
            exchange.onEnd(isOver);
            compressed.add(1, { coding });
            const changed = changeOf(varied, coding);
            return varied.with({ body: host.compress(body, coding), headers: changed });
          },
        });
      },
    };
  },
} satisfies PluginDefinition<typeof Config>;

function isForbidden({ headers }: HttpRequest | HttpResponse): boolean {
  return headers.all("cache-control").some((value) => /\bno-transform\b/i.test(value));
}

/** Digests and ranges would not match the compressed bytes, and trailers would be lost. */
const OF_BYTES = [
  "content-encoding",
  "content-range",
  "content-md5",
  "digest",
  "content-digest",
  "trailer",
];

function isAsItMustBe(response: HttpResponse): boolean {
  const { status, headers } = response;
  return status < 200 || status === 204 || status === 206 || status === 304 ||
    isForbidden(response) ||
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

function changeOf({ headers }: HttpResponse, coding: string): HeaderChange {
  const etag = headers.get("etag");
  return {
    // A range would refer to other bytes.
    remove: ["accept-ranges"],
    set: {
      "content-encoding": coding,
      // The representation is equivalent, not identical byte for byte (RFC 9110 8.8.1).
      ...(etag?.startsWith('"') && { etag: `W/${etag}` }),
    },
  };
}
