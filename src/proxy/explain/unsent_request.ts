/**
 * A request that is asked about and not sent, for stages that want more than its head.
 *
 * @module
 */

import { type DownstreamFacts, ExchangeRecord, type RequestHead } from "../../http/mod.ts";
import { TOKEN_FAULTS, VERIFIED_CLAIMS } from "../../plugin/mod.ts";
import type { VerifiedClaims } from "../../policy/mod.ts";
import { ExchangeValue } from "../service/exchange_value.ts";
import type { HttpListener } from "../service/http_listener.ts";
import { TokenCheck } from "../service/token_check.ts";

const NOBODY: DownstreamFacts = {
  ...{ id: 0, remote: "", local: "", requestedServerName: "", tlsVersion: "", localUri: "" },
  peer: undefined,
};

/** As plugins see it, and the record that changes of fields are made from. */
export interface UnsentExchange {
  readonly record: ExchangeRecord;
  readonly value: ExchangeValue;
}

export function unsentExchange(
  { facts: { context: { clock }, name, direction } }: HttpListener,
  request: RequestHead,
): UnsentExchange {
  const record = new ExchangeRecord(NOBODY, request, {
    ...{ wallMs: clock.now(), monotonicMs: clock.monotonic() },
  });
  const caller = { listener: name, direction, remoteAddress: "", ownUri: "", source: null };
  return { record, value: new ExchangeValue(record, caller) };
}

export interface VerifiedTokens {
  readonly claims: VerifiedClaims | undefined;
  /** See {@link TOKEN_FAULTS}. */
  readonly faults: ReadonlyMap<string, string> | undefined;
}

/**
 * What its tokens say; the request goes on without those that were verified. `undefined`: tokens are not
 * looked at; `unknown`: it could not be found out.
 */
export async function verifiedIn(
  listener: HttpListener,
  request: RequestHead,
): Promise<VerifiedTokens | "unknown" | undefined> {
  const { tokens = "", facts: { context: { facts, deadlines } } } = listener;
  const generation = facts.plugins?.of(tokens);
  if (!generation) return undefined;
  const { value: exchange } = unsentExchange(listener, request);
  const known = await new Promise<RequestHead | undefined>((onKnown) =>
    new TokenCheck({ generation, exchange, deadlines, onKnown }).start(request)
  );
  if (!known) return "unknown";
  request.path = known.path;
  request.fields = known.fields;
  return { claims: exchange.get(VERIFIED_CLAIMS), faults: exchange.get(TOKEN_FAULTS) };
}
