/**
 * Permissions of an intention as Consul writes them. Strict: what this version does not know may be the
 * very condition that was meant to keep somebody out, so that such a permission denies everything that
 * gets to it, and says why.
 *
 * @module
 */

import * as v from "valibot";
import { issueWords } from "../../base/mod.ts";
import type { HeaderMatch, PathMatch, Permission } from "../../policy/mod.ts";
import { flag, list, someText, text } from "./schema.ts";

const HeaderJson = v.strictObject({
  Name: someText,
  Present: flag,
  Exact: text,
  Prefix: text,
  Suffix: text,
  Contains: text,
  Regex: text,
  Invert: flag,
  IgnoreCase: flag,
});

const PermissionJson = v.strictObject({
  Action: v.picklist(["allow", "deny"]),
  HTTP: v.nullish(v.strictObject({
    PathExact: text,
    PathPrefix: text,
    PathRegex: text,
    Header: list(HeaderJson),
    Methods: list(someText),
  })),
  JWT: v.nullish(v.unknown()),
});

const JwtJson = v.strictObject({
  Providers: v.nullish(v.array(v.strictObject({
    Name: someText,
    VerifyClaims: list(v.strictObject({
      Path: v.pipe(v.array(v.string()), v.nonEmpty("must not be empty")),
      Value: text,
    })),
  }))),
});

/** What it demands of tokens, or what nobody can check; `{"Providers": null}` is nothing. */
export function readJwt(jwt: unknown): Pick<Permission, "tokens" | "refused"> {
  if (jwt === null || jwt === undefined) return {};
  const result = v.safeParse(JwtJson, jwt, { abortEarly: true });
  if (!result.success) {
    const issue = result.issues[0];
    const at = v.getDotPath(issue);
    return { refused: `its JWT is not understood: ${at ?? "it"} ${issueWords(issue)}` };
  }
  const providers = result.output.Providers ?? [];
  if (providers.length === 0) return {};
  return {
    tokens: providers.map(({ Name: provider, VerifyClaims: claims }) => ({
      provider,
      claims: (claims ?? []).map(({ Path: path, Value }) => ({ path, value: Value ?? "" })),
    })),
  };
}

export function readPermission(json: unknown): Permission {
  const result = v.safeParse(PermissionJson, json, { abortEarly: true });
  if (!result.success) {
    const issue = result.issues[0];
    return refusal(`${v.getDotPath(issue) ?? "it"} ${issueWords(issue)}`);
  }
  const { Action: action, HTTP: http, JWT: jwt } = result.output;
  const paths = pathsOf(http ?? {});
  const headers = (http?.Header ?? []).map(toHeader);
  const known = headers.filter((header) => header !== undefined);
  if (paths.length > 1) return refusal("it has more than one path");
  if (known.length < headers.length) return refusal("a header has not exactly one kind of match");
  const [path] = paths;
  return {
    action,
    ...(path && { path }),
    methods: (http?.Methods ?? []).map((method) => method.toUpperCase()),
    headers: known,
    ...readJwt(jwt),
  };
}

/** Nothing of it is known, so it is about everything. */
function refusal(fact: string): Permission {
  return { action: "deny", methods: [], headers: [], refused: `it is not understood: ${fact}` };
}

function pathsOf(
  { PathExact = "", PathPrefix = "", PathRegex = "" }: {
    readonly PathExact?: string;
    readonly PathPrefix?: string;
    readonly PathRegex?: string;
  },
): readonly PathMatch[] {
  const paths: readonly PathMatch[] = [
    { kind: "exact", value: PathExact },
    { kind: "prefix", value: PathPrefix },
    { kind: "regex", value: PathRegex },
  ];
  return paths.filter(({ value }) => value !== "");
}

function toHeader(json: v.InferOutput<typeof HeaderJson>): HeaderMatch | undefined {
  const { Name, Present, Exact, Prefix, Suffix, Contains, Regex, Invert, IgnoreCase } = json;
  const kinds = Object.entries(
    {
      exact: Exact,
      prefix: Prefix,
      suffix: Suffix,
      contains: Contains,
      regex: Regex,
    } satisfies Record<Exclude<HeaderMatch["kind"], "present">, string>,
  )
    .filter(([, value]) => value !== "") as [HeaderMatch["kind"], string][];
  if (Present) kinds.push(["present", ""]);
  const [first, second] = kinds;
  if (!first || second) return undefined;
  const [kind, value] = first;
  return { name: Name.toLowerCase(), kind, value, ignoreCase: IgnoreCase, invert: Invert };
}
