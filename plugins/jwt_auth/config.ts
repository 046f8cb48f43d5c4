/**
 * The configuration of `jwt_auth`: providers in the form of Consul's jwt-provider entries, and the required
 * providers in the form of intentions.
 *
 * @module
 */

import * as v from "valibot";

const Text = v.pipe(v.string(), v.nonEmpty());
const HeaderName = v.pipe(
  v.string(),
  v.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, "is no header's name"),
  v.toLowerCase(),
);
const Count = v.pipe(v.number(), v.integer(), v.minValue(0));
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
const Duration = v.pipe(
  v.string(),
  v.regex(/^(?:\d+(?:ms|s|m|h))+$/, 'is no duration such as "5m"'),
  v.transform((text) =>
    [...text.matchAll(/(\d+)(ms|s|m|h)/g)].reduce(
      (sum, [, count, unit = ""]) => sum + Number(count) * (UNITS[unit] ?? 0),
      0,
    )
  ),
  v.minValue(1, "is no time"),
);

const Remote = v.strictObject({
  uri: v.pipe(v.string(), v.url(), v.regex(/^https?:/, "is neither http nor https")),
  cacheDuration: v.optional(Duration, "5m"),
  fetchAsynchronously: v.optional(v.boolean(), false),
  // A generation of plugins must be made within five seconds.
  requestTimeoutMs: v.optional(v.pipe(Count, v.minValue(1), v.maxValue(4_000)), 2_000),
  retryPolicy: v.optional(
    v.strictObject({
      numRetries: v.optional(v.pipe(Count, v.maxValue(100)), 0),
      retryPolicyBackOff: v.optional(
        v.strictObject({
          baseInterval: v.optional(Duration, "1s"),
          maxInterval: v.optional(Duration, "10s"),
        }),
        {},
      ),
    }),
    {},
  ),
});
export type Remote = v.InferOutput<typeof Remote>;

const KeySource = v.union([
  v.strictObject({
    local: v.union([
      v.strictObject({ jwks: v.pipe(Text, v.base64()) }),
      v.strictObject({ filename: v.pipe(v.string(), v.regex(/^\//, "is no absolute path")) }),
    ]),
  }),
  v.strictObject({ remote: Remote }),
]);
export type KeySource = v.InferOutput<typeof KeySource>;

const Location = v.union([
  v.strictObject({
    header: v.strictObject({
      name: HeaderName,
      valuePrefix: v.optional(v.string(), ""),
      forward: v.optional(v.boolean(), false),
    }),
  }),
  v.strictObject({ queryParam: v.strictObject({ name: Text }) }),
  v.strictObject({ cookie: v.strictObject({ name: Text }) }),
]);
export type Location = v.InferOutput<typeof Location>;

const ProviderConfig = v.strictObject({
  issuer: Text,
  audiences: v.optional(v.array(Text), []),
  jsonWebKeySet: KeySource,
  locations: v.optional(v.pipe(v.array(Location), v.minLength(1), v.maxLength(16))),
  forwarding: v.optional(v.strictObject({
    headerName: HeaderName,
    padForwardPayloadHeader: v.optional(v.boolean(), false),
  })),
  clockSkewSeconds: v.optional(Count, 30),
  cacheConfig: v.optional(
    v.strictObject({ size: v.optional(v.pipe(Count, v.maxValue(100_000)), 100) }),
    {},
  ),
});
export type ProviderConfig = v.InferOutput<typeof ProviderConfig>;

const Need = v.strictObject({
  provider: Text,
  verifyClaims: v.optional(
    v.array(v.strictObject({ path: v.pipe(v.array(Text), v.minLength(1)), value: v.string() })),
    [],
  ),
});
export type Need = v.InferOutput<typeof Need>;
const Needs = v.pipe(v.array(Need), v.minLength(1), v.maxLength(16));
const Requirement = v.union([v.strictObject({ any: Needs }), v.strictObject({ all: Needs })]);

export function needsOf(require: v.InferOutput<typeof Requirement> | undefined): readonly Need[] {
  if (!require) return [];
  return "any" in require ? require.any : require.all;
}

export const JwtAuthConfig = v.pipe(
  v.strictObject({
    providers: v.record(Text, ProviderConfig),
    /** Absent: no request is refused. */
    require: v.optional(Requirement),
  }),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    const { providers, require } = dataset.value;
    const unknown = needsOf(require).find(({ provider }) => !Object.hasOwn(providers, provider));
    if (unknown) addIssue({ message: `require: there is no provider "${unknown.provider}"` });
  }),
);
export type JwtAuthConfig = v.InferOutput<typeof JwtAuthConfig>;
