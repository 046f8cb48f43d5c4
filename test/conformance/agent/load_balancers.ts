/**
 * Load balancers that no service-resolver may have.
 *
 * @module
 */

const hashing = (...HashPolicies: readonly object[]) => ({ Policy: "ring_hash", HashPolicies });

/** And what is said of each. */
export const REFUSED_BALANCERS = [
  [
    { Policy: "maglev", RingHashConfig: { MinimumRingSize: 64 } },
    ' configuration. RingHashConfig specified for incompatible load balancing policy "maglev"',
  ],
  [
    { Policy: "maglev", LeastRequestConfig: { ChoiceCount: 2 } },
    ' configuration. LeastRequestConfig specified for incompatible load balancing policy "maglev"',
  ],
  [
    { Policy: "random", HashPolicies: [{ SourceIP: true }] },
    ' configuration: HashPolicies specified for non-hash-based Policy: "random"',
  ],
  [
    hashing({ SourceIP: true }, { Field: "header", SourceIP: true }),
    ' HashPolicy[1]: A single hash policy cannot hash both a source address and a "header"',
  ],
  [
    hashing({ Field: "header" }),
    ' HashPolicy[0]: Field "header" was specified without a FieldValue',
  ],
  [hashing({ FieldValue: "x" }), " HashPolicy[0]: FieldValue requires a Field to apply to"],
  [
    hashing({ Field: "trailer", FieldValue: "x" }),
    ' HashPolicy[0]: "trailer" is not a supported field',
  ],
  [
    hashing({ Field: "header", FieldValue: "x", CookieConfig: { Session: true } }),
    ' HashPolicy[0]: cookie_config provided for "header"',
  ],
  [
    hashing({ Field: "cookie", FieldValue: "x", CookieConfig: { Session: true, TTL: "5s" } }),
    " HashPolicy[0]: a session cookie cannot have an associated TTL",
  ],
] as const;
