/**
 * A request that is asked about and not sent, as stages see it that want more than its head.
 *
 * @module
 */

import { type DownstreamFacts, ExchangeRecord, type RequestHead } from "../../http/mod.ts";
import { VERIFIED_CLAIMS } from "../../plugin/mod.ts";
import type { VerifiedClaims } from "../../policy/mod.ts";
import type { Context } from "../context.ts";
import { ExchangeValue } from "./exchange_value.ts";
import type { HttpListener } from "./http_listener.ts";
import { TokenCheck } from "./token_check.ts";

const NOBODY: DownstreamFacts = {
  ...{ id: 0, remote: "", local: "", requestedServerName: "", tlsVersion: "", localUri: "" },
  peer: undefined,
};

export function recordOf(request: RequestHead, { clock }: Pick<Context, "clock">): ExchangeRecord {
  return new ExchangeRecord(NOBODY, request, {
    ...{ wallMs: clock.now(), monotonicMs: clock.monotonic() },
  });
}

/**
 * What its tokens say; it goes on without those that were verified. `undefined`: nobody looks at tokens;
 * `unknown`: it could not be found out.
 */
export async function verifiedIn(
  { tokens = "", front: { context, name, direction } }: HttpListener,
  request: RequestHead,
): Promise<VerifiedClaims | "unknown" | undefined> {
  const { facts, deadlines } = context;
  const generation = facts.plugins?.of(tokens);
  if (!generation) return undefined;
  const caller = { listener: name, direction, remoteAddress: "", ownUri: "", source: null };
  const exchange = new ExchangeValue(recordOf(request, context), caller);
  const known = await new Promise<RequestHead | undefined>((onKnown) =>
    new TokenCheck({ generation, exchange, deadlines, onKnown }).start(request)
  );
  if (!known) return "unknown";
  request.path = known.path;
  request.fields = known.fields;
  return exchange.get(VERIFIED_CLAIMS);
}
