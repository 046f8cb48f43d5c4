/**
 * The known differences from Envoy. Each is a row of `docs/differences.md`; a difference that is not
 * seen any more has no place there.
 *
 * @module
 */

export interface Expected {
  /** How the row of `docs/differences.md` begins. */
  readonly doc: string;
  /** Matches a difference as `Comparison` words it. */
  readonly seen: RegExp;
}

export const EXPECTED: readonly Expected[] = [
  {
    doc: "fields that Envoy adds to responses",
    seen: /: [-+] < (date|server|x-envoy-upstream-service-time): /,
  },
  { doc: "a refused caller with an identity", seen: /: [-+] < x-postern-denied-by: [a-z_]+$/ },
  { doc: "early hints (103)", seen: /: \+ < 103 / },
  { doc: "`x-envoy-original-path` of callers", seen: /: - > x-envoy-original-path: / },
  {
    doc: "request timeout when none is configured",
    seen: /: [-+] > x-envoy-expected-rq-timeout-ms: (15|60)000/,
  },
  {
    doc: "a connection that ends while it is kept",
    seen:
      /: (no response but an end|5xx: GET drop drop drop 200) .*: [-+] ([<>] |(503|200 other)(, \d tries)?$)/,
  },
  {
    doc: "`RequestTimeout` of a route or resolver",
    seen:
      /^timeouts: .*: (- > x-envoy-expected-rq-timeout-ms: |[-+] (< )?200 .*(cut|waited|"one,two"))/,
  },
  {
    doc: "a request without `Host`, a path with `#`",
    seen: /: (a path with a fragment|no host) .*: [-+] (400$|0 reset 1|< )/,
  },
  {
    doc: "`HeadersWithUnderscoresAction` `REJECT_REQUEST`",
    seen: /^paths, redirected: an underscore .*: [-+] /,
  },
  {
    doc: "the body of the 503 when an application refuses an HTTP/2 stream",
    seen: /^retries: gRPC refused: .*: [-+] < grpc-message: .* remote (refused stream )?reset$/,
  },
  { doc: "gRPC called over HTTP/1.1", seen: /^gRPC: \S+ over HTTP\/1\.1 .*: [-+] / },
  {
    doc: "`MaxConcurrentRequests`",
    seen: /^limits: three at once \(scarce, .*: [-+] 200 scarce \| 503/,
  },
  {
    doc: "an instance to which no connection can be made",
    seen:
      /^targets: any \((failover-dead|patched), .*: [-+] 200|^targets: any \(failover-dead, .*: - 503$/,
  },
  {
    doc: "a body is kept so that a route may retry",
    seen: /^retries: 5xx: POST 900000 503 200 .*: [-+] ((< )?(200|503) |> try 2: )/,
  },
  {
    doc: "`PathExact` with a `PrefixRewrite` of `/`",
    seen: /^rewrites: \/top(\?q)? by \/ .*: [-+] > (GET \/(top)?(\?q)? ""|x-envoy-original-path: )/,
  },
  { doc: "`/old../a` where `/old` is to become `/`", seen: /^rewrites: \/old\.\.\/a .*: [-+] / },
  { doc: "the instance that a hash leads to", seen: /^stickiness: .*: [-+] 200 [rg]\d$/ },
  { doc: "HTTP/1.0", seen: /^wires: HTTP\/1\.[02] .*: [-+] / },
  { doc: "two fields `Host`", seen: /^wires: two hosts .*: [-+] / },
  {
    doc: "a folded field value (`obs-fold`, RFC 9112 5.2)",
    seen: /^wires: a line that goes on .*: [-+] /,
  },
  {
    doc: "methods of HTTP/1.1 that are not registered",
    seen: /^wires: (a method in lower case|an unknown method) .*: [-+] /,
  },
  { doc: "`OPTIONS *`", seen: /^wires: OPTIONS \* .*: [-+] / },
  { doc: "`Expect` of anything but `100-continue`", seen: /^wires: expect something .*: [-+] / },
  { doc: "upgrades other than WebSocket", seen: /^wires: an upgrade to something .*: [-+] / },
  { doc: "`x_forwarded_for`, and other names of trusted fields", seen: /: - > x_forwarded_for: / },
  {
    doc: "a head that is too large, over HTTP/2",
    seen: /^wires: a head that is too large .*: [-+] /,
  },
  { doc: "trailers of HTTP/1.1", seen: /: \+ (<<|>>) / },
];

/** The predictions of a Postern's `explain` about an Envoy behind it, which behaves differently. */
export const SAID_OF_ENVOY: readonly Expected[] = [
  { doc: "`OPTIONS *`", seen: /^wires: OPTIONS \* .*, postern calls envoy: was 404/ },
  {
    doc: "`HeadersWithUnderscoresAction` `REJECT_REQUEST`",
    seen: /^paths, redirected: an underscore .*, postern calls envoy: was 503/,
  },
];

/** Differences that are not in the list. */
export function unexpected(
  differences: readonly string[],
  expected = EXPECTED,
): readonly string[] {
  return differences.filter((one) => !expected.some(({ seen }) => seen.test(one)));
}

/** Expectations that nothing met, and those without a row in the docs. */
export function unmet(
  differences: readonly string[],
  docs: string,
  expected = EXPECTED,
): readonly string[] {
  return expected.flatMap(({ doc, seen }) => [
    ...(differences.some((one) => seen.test(one)) ? [] : [`${doc}: not seen as ${seen}`]),
    ...(docs.includes(`\n| ${doc}`) ? [] : [`${doc}: no row of docs/differences.md`]),
  ]);
}
