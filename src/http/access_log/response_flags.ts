/**
 * Faults of an exchange or a connection in Envoy's abbreviations, which dashboards and people know: a set
 * of bits, as several may apply. They are written in this order.
 *
 * @module
 */

/** Envoy's long names, in the order of the bits. */
export const FLAG_WORDS = {
  UH: "NoHealthyUpstream",
  UF: "UpstreamConnectionFailure",
  UO: "UpstreamOverflow",
  NR: "NoRouteFound",
  URX: "UpstreamRetryLimitExceeded",
  NC: "NoClusterFound",
  DT: "DurationTimeout",
  DC: "DownstreamConnectionTermination",
  LH: "FailedLocalHealthCheck",
  UT: "UpstreamRequestTimeout",
  LR: "LocalReset",
  UR: "UpstreamRemoteReset",
  UC: "UpstreamConnectionTermination",
  DI: "DelayInjected",
  FI: "FaultInjected",
  RL: "RateLimited",
  UAEX: "UnauthorizedExternalService",
  RLSE: "RateLimitServiceError",
  IH: "InvalidEnvoyRequestHeaders",
  SI: "StreamIdleTimeout",
  DPE: "DownstreamProtocolError",
  UPE: "UpstreamProtocolError",
  UMSDR: "UpstreamMaxStreamDurationReached",
  OM: "OverloadManagerTerminated",
  DF: "DnsResolutionFailed",
  DR: "DownstreamRemoteReset",
} as const;

export type FlagName = keyof typeof FLAG_WORDS;

const NAMES = Object.keys(FLAG_WORDS) as readonly FlagName[];

/** Bits by abbreviation; {@link FLAG_WORDS} has the meaning of each. */
export const FLAG = Object.fromEntries(NAMES.map((name, bit) => [name, 1 << bit])) as Readonly<
  Record<FlagName, number>
>;

/** Few sets occur: the text of each is cached. */
const WORDS = { short: new Map<number, string>(), long: new Map<number, string>() };
const WORDS_LIMIT = 256;

/** `UF,URX`; `""`: none. */
export function flagsText(flags: number, form: "short" | "long" = "short"): string {
  const known = WORDS[form];
  let text = known.get(flags);
  if (text === undefined) {
    text = NAMES.filter((name) => flags & FLAG[name])
      .map((name) => form === "long" ? FLAG_WORDS[name] : name).join(",");
    if (known.size < WORDS_LIMIT) known.set(flags, text);
  }
  return text;
}
