/** Intentions of a configuration file, spelled like Consul's entries for Kubernetes. @module */

import * as v from "valibot";
import {
  type HeaderMatch,
  type Intention,
  type PathMatch,
  type Permission,
  permissionFault,
} from "../../policy/mod.ts";
import { object, type Problem, text } from "../../base/schema.ts";
import { parseTrustDomainId } from "../../identity/mod.ts";

const flag = () => v.optional(v.boolean("must be true or false"), false);
const path = () => v.optional(v.pipe(text(), v.startsWith("/", 'must begin with "/"')));
const ACTION = v.picklist(["allow", "deny"], 'must be "allow" or "deny"');

const Header = object({
  name: text(),
  present: flag(),
  exact: v.optional(text()),
  prefix: v.optional(text()),
  suffix: v.optional(text()),
  contains: v.optional(text()),
  regex: v.optional(text()),
  invert: flag(),
  ignoreCase: flag(),
});

const Permitted = object({
  action: ACTION,
  http: object({
    pathExact: path(),
    pathPrefix: path(),
    pathRegex: v.optional(text()),
    methods: v.optional(
      v.array(v.pipe(
        text(),
        v.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, "is no HTTP method"),
        v.transform((method) => method.toUpperCase()),
      )),
      [],
    ),
    header: v.optional(v.array(Header), []),
  }),
});

const FileIntention = object({
  /** A service name, `*`, or a SPIFFE id or all below one (`spiffe://td/ns/*`). */
  source: v.union(
    [name({ wildcard: true }), spiffePattern()],
    'must be a service name, "*", or a SPIFFE id with or without "/*" at its end',
  ),
  namespace: v.optional(name({ wildcard: true }), "default"),
  partition: v.optional(name({ wildcard: true }), "default"),
  action: v.optional(ACTION),
  /** In place of an action, of a service that speaks HTTP: the first that covers a request decides. */
  permissions: v.optional(v.pipe(
    v.array(Permitted),
    v.nonEmpty("must not be empty"),
    v.maxLength(1_000, "has more than 1000 entries"),
  )),
});

export const INTENTIONS = v.optional(
  v.pipe(v.array(FileIntention), v.maxLength(100_000, "has more than 100000 entries")),
  [],
);

type FileIntention = v.InferOutput<typeof FileIntention>;
type FilePermission = v.InferOutput<typeof Permitted>;

/** Whether `prepareRegexes()` must have been awaited before the text of a configuration file is read. */
export function mayHaveRegex(text: string): boolean {
  // An escape may be any letter of the word.
  return /regex|\\u/i.test(text);
}

export function intentionContradictions(
  { intentions, trustDomain, inbound }: {
    readonly intentions: readonly FileIntention[];
    readonly trustDomain?: string | undefined;
    readonly inbound?: { readonly protocol: string } | undefined;
  },
): readonly Problem[] {
  const found: Problem[] = [];
  const sources = new Set<string>();
  intentions.forEach(({ source, namespace, partition, action, permissions }, index) => {
    const at = (path: readonly (string | number)[], message: string) =>
      found.push({ path: ["intentions", index, ...path], message });
    // Without a trust domain no caller is such a service, and a denying rule would allow every caller.
    if (trustDomain === undefined && !source.startsWith("spiffe://")) {
      at(
        ["source"],
        'needs "trustDomain" at the top of the file, whose services it is about; ' +
          "other callers are named by SPIFFE ids",
      );
    }
    const key = JSON.stringify([source, namespace, partition]).toLowerCase();
    if (sources.has(key)) at(["source"], `"${source}" has an intention already`);
    sources.add(key);
    if (!action === !permissions) {
      const fault = action
        ? 'is one too many beside "permissions"'
        : 'is missing, or "permissions"';
      at(["action"], fault);
    }
    if (permissions && inbound?.protocol === "tcp") {
      const needs = 'needs "protocol": "http", "http2" or "grpc" at "inbound"';
      at(["permissions"], `${needs}: they are about requests, which tcp has none of`);
    }
    permissions?.forEach((permission, number) => {
      for (const { path, message } of permissionProblems(permission)) {
        at(["permissions", number, ...path], message);
      }
    });
  });
  return found;
}

function permissionProblems({ action, http }: FilePermission): readonly Problem[] {
  const found: Problem[] = [];
  const paths = pathsOf(http);
  if (paths.length > 1) found.push({ path: ["http"], message: "has more than one path" });
  if (paths.length + http.methods.length + http.header.length === 0) {
    found.push({
      path: ["http"],
      message: 'must not be empty: for all requests there is "action" in place of "permissions"',
    });
  }
  http.header.forEach((header, index) => {
    const kinds = headerMatches(header);
    const fault = kinds.length !== 1
      ? "must have exactly one of present, exact, prefix, suffix, contains and regex"
      : header.ignoreCase && kinds.some(({ kind }) => kind === "present" || kind === "regex")
      ? "has ignoreCase, which is for exact, prefix, suffix and contains"
      : undefined;
    if (fault !== undefined) found.push({ path: ["http", "header", index], message: fault });
  });
  if (found.length > 0) return found;
  const fault = permissionFault(permissionOf({ action, http }));
  return fault === undefined ? [] : [{ path: ["http"], message: `cannot be judged: ${fault}` }];
}

/** Consul's order: exact sources before `*`, whatever the order in the file. */
export function intentionsOf(
  { intentions, service }: {
    readonly intentions: readonly FileIntention[];
    readonly service: string;
  },
): readonly Intention[] {
  return intentions.map((written): Intention => {
    const { source, namespace, partition, permissions } = written;
    const isUri = source.startsWith("spiffe://");
    const precedence = source === "*" || source.endsWith("/*") ? 8 : 9;
    const action = permissions ? "permissions" : written.action ?? "deny";
    return {
      rule: `${source} => ${service} (configuration file, ${action})`,
      source: { name: source, namespace, partition, peer: "", ...(isUri && { uri: source }) },
      action,
      ...(permissions && { permissions: permissions.map(permissionOf) }),
      precedence,
    };
  }).sort((a, b) => b.precedence - a.precedence || uriLength(b) - uriLength(a));
}

/** The longer of two URI patterns is the more specific one. */
function uriLength({ source }: Intention): number {
  return source.uri?.length ?? 0;
}

function permissionOf({ action, http }: FilePermission): Permission {
  const [path] = pathsOf(http);
  return {
    action,
    ...(path && { path }),
    methods: http.methods,
    headers: http.header.flatMap(headerMatches),
  };
}

function pathsOf(
  { pathExact, pathPrefix, pathRegex }: FilePermission["http"],
): readonly PathMatch[] {
  return given({ exact: pathExact, prefix: pathPrefix, regex: pathRegex });
}

function headerMatches(header: FilePermission["http"]["header"][number]): readonly HeaderMatch[] {
  const { name, present, invert, ignoreCase, ...values } = header;
  return given({ ...values, present: present ? "" : undefined })
    .map((match) => ({ ...match, name: name.toLowerCase(), invert, ignoreCase }));
}

function given<const K extends string>(
  values: { readonly [kind in K]?: string | undefined },
): readonly { readonly kind: K; readonly value: string }[] {
  return (Object.entries(values) as [K, string | undefined][])
    .flatMap(([kind, value]) => value === undefined ? [] : [{ kind, value }]);
}

const SPIFFE_ID = /^spiffe:\/\/[a-zA-Z0-9._-]+(\/(?!\.{1,2}(\/|$))[a-zA-Z0-9._~%$&+,:;=@-]+)+$/;

export function name(options: { readonly wildcard?: boolean } = {}): v.GenericSchema<string> {
  return v.pipe(
    text(),
    v.check(
      (value) =>
        (options.wildcard && value === "*") || (value.length <= 255 && !/[\s/*]/.test(value)),
      options.wildcard
        ? 'must be a name without spaces and slashes, or "*"'
        : "must be a name without spaces, slashes and stars",
    ),
  );
}

/** Any SPIFFE id with a path; Consul's own escape what is no letter (`%20`). */
export function spiffeId(): v.GenericSchema<string> {
  return v.pipe(
    v.string("must be a SPIFFE id"),
    v.maxLength(2_048, "is longer than 2048 characters"),
    v.regex(SPIFFE_ID, "is no SPIFFE id"),
  );
}

/** A SPIFFE id, or all below one: `spiffe://td/ns/*`. */
function spiffePattern(): v.GenericSchema<string> {
  return v.pipe(
    text(),
    v.startsWith("spiffe://", "must begin with spiffe://"),
    v.check((value) => {
      const id = value.endsWith("/*") ? value.slice(0, -2) : value;
      return SPIFFE_ID.test(id) || parseTrustDomainId(id) !== undefined;
    }, "is no SPIFFE id"),
  );
}
