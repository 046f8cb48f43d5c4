/**
 * The response to a denied request; for gRPC callers with a gRPC status, mapped as in Envoy.
 *
 * @module
 */

import type { Host, HttpRequest, HttpResponse } from "../../src/plugin/api.ts";
import { type AuthzVerdict, mutated, type Mutation } from "./verdict.ts";

type Denial = Omit<Extract<AuthzVerdict, { kind: "denied" }>, "kind">;

/** Throws if the status or a header is not valid. */
export function denialOf({ status, headers, body }: Denial, { request, host }: {
  readonly request: HttpRequest;
  readonly host: Host;
}): HttpResponse {
  if (isGrpc(request)) {
    const reply = host.reply(status);
    const shown = lawful(headers).filter(({ name }) => name !== "content-type");
    const own = {
      "content-type": "application/grpc",
      "grpc-status": String(GRPC_STATUSES.get(status) ?? UNKNOWN),
      ...(body && { "grpc-message": percentEncoded(body) }),
    };
    return reply.with({ status: 200, headers: mutated(reply.headers, shown).with({ set: own }) });
  }
  const reply = host.reply(status);
  const changed = mutated(reply.headers, lawful(headers));
  const type = body && changed.get("content-type") === undefined
    ? { "content-type": "text/plain" }
    : {};
  return reply.with({ headers: changed.with({ set: type }), body });
}

/** Fields about framing and the connection, which only the sender of a message sets. */
const OF_CONNECTIONS: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "expect",
  "host",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "te",
  "transfer-encoding",
  "upgrade",
]);

function lawful(headers: readonly Mutation[]): readonly Mutation[] {
  return headers.filter(({ name }) => !OF_CONNECTIONS.has(name) && !name.startsWith(":"));
}

function isGrpc({ headers }: HttpRequest): boolean {
  return /^application\/grpc(?:$|[+;])/.test(headers.get("content-type") ?? "");
}

const UNKNOWN = 2;
const UNAVAILABLE = 14;
const GRPC_STATUSES: ReadonlyMap<number, number> = new Map([
  [400, 13],
  [401, 16],
  [403, 7],
  [404, 12],
  ...[429, 502, 503, 504].map((status) => [status, UNAVAILABLE] as const),
]);

/** The encoding of gRPC messages: `%`, and characters that are not printable ASCII, as escaped octets. */
function percentEncoded(body: Uint8Array): string {
  let text = "";
  for (const octet of body) {
    const isPlain = octet >= 0x20 && octet <= 0x7e && octet !== 0x25;
    text += isPlain
      ? String.fromCharCode(octet)
      : `%${octet.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return text;
}
