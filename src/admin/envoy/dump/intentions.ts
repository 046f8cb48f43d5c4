/**
 * Intentions as rules of Envoy's RBAC filter, as Consul writes them: only those that differ from the
 * default, each without what an earlier rule decides. For tools alone: Postern does not use them.
 *
 * @module
 */

import type { Intention, Permission } from "../../../policy/mod.ts";
import type { Snapshot } from "../../../snapshot/mod.ts";
import { NOT_SHOWN } from "../../redact.ts";
import type { Json } from "../listeners.ts";

/** `withRequests`: permissions become rules; otherwise they deny. */
export function rbacRules(
  { policy: { intentions, defaultAction }, credentials }: Snapshot,
  withRequests: boolean,
): Json {
  const domains = credentials?.trustDomains ?? [];
  const wanted = defaultAction === "allow" ? "deny" : "allow";
  const plain: Json[] = [];
  const byRequest: (readonly [string, Json])[] = [];
  for (const [at, intention] of intentions.entries()) {
    const principal = () => principalOf(intention, intentions.slice(0, at), domains);
    const previous = intentions[at - 1];
    // This denial accompanies permissions, for namespaces that this mesh does not have.
    if (previous?.action === "permissions" && previous.rule === intention.rule) continue;
    if (intention.action !== "permissions") {
      if (intention.action === wanted) plain.push(principal());
      continue;
    }
    if (!withRequests) {
      if (wanted === "deny") plain.push(principal());
      continue;
    }
    const permissions = permissionsOf(intention.permissions ?? [], wanted);
    if (permissions.length === 0) continue;
    const name = `consul-intentions-layer7-${byRequest.length}`;
    byRequest.push([name, { permissions, principals: [principal()] }]);
  }
  const policies = {
    ...(plain.length > 0 && {
      "consul-intentions-layer4": { permissions: [{ any: true }], principals: plain },
    }),
    ...Object.fromEntries(byRequest),
  };
  return {
    // The filter's default action is to allow.
    ...(wanted === "deny" && { action: "DENY" }),
    ...(Object.keys(policies).length > 0 && { policies }),
  };
}

/** The sources of an intention, without those that an earlier intention decides. */
function principalOf(
  intention: Intention,
  before: readonly Intention[],
  domains: readonly string[],
): Json {
  const own = sourceOf(intention, domains);
  const others = before.filter((other) => isWithin(other.source, intention.source))
    .map((other) => ({ not_id: sourceOf(other, domains) }));
  return others.length === 0 ? own : { and_ids: { ids: [own, ...others] } };
}

type Source = Intention["source"];

function isWithin(narrow: Source, wide: Source): boolean {
  if (wide.uri !== undefined || narrow.uri !== undefined) return false;
  const fits = (inner: string, outer: string) => outer === "*" || inner === outer;
  return fits(narrow.name, wide.name) && fits(narrow.namespace, wide.namespace) &&
    fits(narrow.partition, wide.partition) && narrow.peer === wide.peer;
}

function sourceOf({ source }: Intention, domains: readonly string[]): Json {
  const { name, namespace, partition, uri } = source;
  if (uri !== undefined) {
    const text = uri.endsWith("/*") ? { prefix: uri.slice(0, -1) } : { exact: uri };
    return { authenticated: { principal_name: text } };
  }
  const any = (segment: string) => segment === "*" ? "[^/]+" : segment;
  const tenancy = partition === "*" || partition === "default"
    ? partition === "*" ? "(?:/ap/[^/]+)?" : ""
    : `/ap/${partition}`;
  const ids = domains.map((domain) => ({
    authenticated: {
      principal_name: {
        safe_regex: {
          regex: `^spiffe://${domain}${tenancy}/ns/${any(namespace)}/dc/[^/]+/svc/${any(name)}$`,
        },
      },
    },
  }));
  const [only] = ids;
  return only && ids.length === 1 ? only : { or_ids: { ids } };
}

/** Permissions with that action, each without the requests of earlier ones. */
function permissionsOf(
  permissions: readonly Permission[],
  wanted: Permission["action"],
): readonly Json[] {
  const rules = permissions.map(ruleOf);
  return permissions.flatMap(({ action }, at) => {
    const own = rules[at];
    if (action !== wanted || !own) return [];
    const before = rules.slice(0, at).reverse().map((rule) => ({ not_rule: rule }));
    return [before.length === 0 ? own : { and_rules: { rules: [own, ...before] } }];
  });
}

function ruleOf({ path, methods, headers }: Permission): Json {
  const rules: Json[] = [];
  if (path) {
    const match = path.kind === "regex"
      ? { safe_regex: { regex: path.value } }
      : { [path.kind]: path.value };
    rules.push({ url_path: { path: match } });
  }
  for (const header of headers) {
    rules.push({
      header: {
        name: header.name,
        ...(header.kind === "present"
          ? { present_match: true }
          : { string_match: textMatch(header) }),
        ...(header.invert && { invert_match: true }),
      },
    });
  }
  if (methods.length > 0) {
    const string_match = { safe_regex: { regex: methods.join("|") } };
    rules.push({ header: { name: ":method", string_match } });
  }
  const [only] = rules;
  if (!only) return { any: true };
  return rules.length === 1 ? only : { and_rules: { rules } };
}

/** The value that a header match requires may be a token. */
export function textMatch(
  { kind, value, ignoreCase }: {
    readonly kind: string;
    readonly value: string;
    readonly ignoreCase: boolean;
  },
): Json {
  const shown = value === "" ? "" : NOT_SHOWN;
  if (kind === "regex") return { safe_regex: { regex: shown } };
  return { [kind]: shown, ...(ignoreCase && { ignore_case: true }) };
}
