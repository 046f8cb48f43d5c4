/**
 * Which paths and names of fields a listener takes, and in which form they go on (envoy.md 2.8).
 *
 * @module
 */

/** Of the mesh entry's `HTTP.Incoming.RequestNormalization`. */
export interface PathRules {
  /** RFC 3986: dot segments, `\` to `/`, needless escapes. */
  readonly normalize: boolean;
  readonly mergeSlashes: boolean;
  /** `%2F` and `%5C`. */
  readonly escapedSlashes: "keep" | "reject" | "unescape" | "redirect";
  /** Names of fields with underscores. */
  readonly underscores: "allow" | "reject" | "drop";
}
