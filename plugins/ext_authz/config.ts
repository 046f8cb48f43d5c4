/**
 * The configuration of `ext_authz`: the names are those of Envoy's filter and of Consul's
 * `builtin/ext-authz`, in lower camel case.
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
const HeaderValue = v.pipe(v.string(), v.regex(/^[\t\x20-\x7e]*$/, "is no header's value"));
const Headers = v.optional(v.record(HeaderName, HeaderValue), {});

const ignoreCase = v.optional(v.boolean(), false);
const Matcher = v.union([
  v.strictObject({ exact: Text, ignoreCase }),
  v.strictObject({ prefix: Text, ignoreCase }),
  v.strictObject({ suffix: Text, ignoreCase }),
  v.strictObject({ contains: Text, ignoreCase }),
  v.strictObject({ safeRegex: Text }),
]);
export type Matcher = v.InferOutput<typeof Matcher>;
const Matchers = v.optional(v.pipe(v.array(Matcher), v.maxLength(64)), []);

/** The service must answer before the time ends for which a plugin may hold a request. */
export const MAX_TIMEOUT_MS = 8_000;
const timeoutMs = v.optional(
  v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(MAX_TIMEOUT_MS)),
  200,
);

const AuthzHttpService = v.strictObject({
  target: Text,
  timeoutMs,
  pathPrefix: v.optional(v.pipe(v.string(), v.regex(/^(?:\/[\x21-\x7e]*)?$/, "is no path")), ""),
  authorizationRequest: v.optional(
    v.strictObject({ allowedHeaders: Matchers, headersToAdd: Headers }),
    {},
  ),
  authorizationResponse: v.optional(
    v.strictObject({
      allowedUpstreamHeaders: Matchers,
      allowedUpstreamHeadersToAppend: Matchers,
      allowedClientHeaders: Matchers,
      allowedClientHeadersOnSuccess: Matchers,
    }),
    {},
  ),
});
export type AuthzHttpService = v.InferOutput<typeof AuthzHttpService>;

const GrpcService = v.strictObject({
  target: Text,
  timeoutMs,
  authority: v.optional(Text),
  initialMetadata: Headers,
});
export type GrpcService = v.InferOutput<typeof GrpcService>;

const Bytes = v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(1_048_576));
const COMMON = {
  failureModeAllow: v.optional(v.boolean(), false),
  statusOnError: v.optional(
    v.pipe(v.number(), v.integer(), v.minValue(400), v.maxValue(599)),
    403,
  ),
  withRequestBody: v.optional(v.strictObject({
    maxRequestBytes: Bytes,
    allowPartialMessage: v.optional(v.boolean(), false),
    packAsBytes: v.optional(v.boolean(), false),
  })),
  ownHeaders: v.optional(v.pipe(v.array(HeaderName), v.maxLength(64)), []),
} as const;

export const ExtAuthzConfig = v.pipe(
  v.strictObject({
    ...COMMON,
    httpService: v.optional(AuthzHttpService),
    grpcService: v.optional(GrpcService),
  }),
  v.check(
    ({ httpService, grpcService }) => (httpService === undefined) !== (grpcService === undefined),
    "there has to be one of httpService and grpcService",
  ),
);
export type ExtAuthzConfig = v.InferOutput<typeof ExtAuthzConfig>;
