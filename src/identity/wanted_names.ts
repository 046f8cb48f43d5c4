/**
 * The names for which clients can make the proxy fetch certificates. Pure; connections are checked, too,
 * so that most refusals cost nothing further.
 *
 * @module
 */

const NAME_LIMIT = 253;
const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** Exact names, and suffixes such as `.example.com`; both empty: every DNS name. */
export interface WantedNames {
  readonly names: readonly string[];
  readonly suffixes: readonly string[];
}

/** Bounds on the fetches that clients can cause (envoy.md 1.10). Plain data. */
export interface OnDemandRules extends WantedNames {
  /** Certificates held at once; the least recently requested one goes. Default 1,000. */
  readonly maxEntries: number;
  /** A name that the server does not know is not requested again for this long. Default 30 s. */
  readonly negativeTtlMs: number;
  /** New names per second and source address. Default 10. */
  readonly perSourceRate: number;
  /** Names requested and not answered at once. Default 100. */
  readonly maxPending: number;
  /**
   * How long a handshake waits, within its own deadline of 10 s. Default 8 s, so that the client gets an
   * alert.
   */
  readonly waitMs: number;
}

interface Allowed {
  readonly names: ReadonlySet<string>;
  /** Suffixes with their leading dot. */
  readonly suffixes: ReadonlySet<string>;
}

/** Lists may be long, and many handshakes have the same rules. */
const compiled = new WeakMap<WantedNames, Allowed>();

/** Why no certificate may be fetched for a name, in any case; `undefined`: it may. */
export function judgeName(rules: WantedNames, name: string): string | undefined {
  if (name.length > NAME_LIMIT) return "longer than a DNS name can be";
  const lower = name.toLowerCase();
  const labels = lower.split(".");
  if (!labels.every((label) => LABEL.test(label))) return "not a DNS name";
  if (/^\d+$/.test(labels.at(-1) ?? "")) return "an address, not a DNS name";
  const { names, suffixes } = allowedOf(rules);
  if (names.has(lower)) return undefined;
  if (labels.length < 2) return "without a dot and not on the list";
  if (names.size === 0 && suffixes.size === 0) return undefined;
  for (let dot = lower.indexOf("."); dot !== -1; dot = lower.indexOf(".", dot + 1)) {
    if (suffixes.has(lower.slice(dot))) return undefined;
  }
  return "not on the list";
}

function allowedOf(rules: WantedNames): Allowed {
  let allowed = compiled.get(rules);
  if (!allowed) {
    const names = new Set(rules.names.map((name) => name.toLowerCase()));
    // Without its dot, `example.com` would match `badexample.com`, too.
    const dotted = rules.suffixes.map((suffix) =>
      suffix.startsWith(".") ? suffix.toLowerCase() : `.${suffix.toLowerCase()}`
    );
    compiled.set(rules, allowed = { names, suffixes: new Set(dotted) });
  }
  return allowed;
}
