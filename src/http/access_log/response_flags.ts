/**
 * Faults of an exchange or a connection in Envoy's abbreviations, which dashboards and people know: a set
 * of bits, as several may apply. They are written in this order.
 *
 * @module
 */

/** Bits by abbreviation; {@link FLAG_WORDS} has the meaning of each. */
export const FLAG = {
  UH: 1 << 0,
  UF: 1 << 1,
  UO: 1 << 2,
  NR: 1 << 3,
  URX: 1 << 4,
  NC: 1 << 5,
  DT: 1 << 6,
  DC: 1 << 7,
  LH: 1 << 8,
  UT: 1 << 9,
  LR: 1 << 10,
  UR: 1 << 11,
  UC: 1 << 12,
  DI: 1 << 13,
  FI: 1 << 14,
  RL: 1 << 15,
  UAEX: 1 << 16,
  RLSE: 1 << 17,
  IH: 1 << 18,
  SI: 1 << 19,
  DPE: 1 << 20,
  UPE: 1 << 21,
  UMSDR: 1 << 22,
  OM: 1 << 23,
  DF: 1 << 24,
  DR: 1 << 25,
} as const;

export type FlagName = keyof typeof FLAG;

/** Envoy's long names. */
export const FLAG_WORDS: Readonly<Record<FlagName, string>> = {
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
};

const NAMES = Object.keys(FLAG) as readonly FlagName[];
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
