/** Intentions and permissions that decide nothing, since an earlier one covers all that they cover. @module */

import type { HeaderMatch, PathMatch } from "../../../policy/mod.ts";
import { compilePermission, type Intention, type Permission } from "../../../policy/mod.ts";

export interface ShadowedRule {
  /** For people: `default/web => default/db (precedence 6, deny)`, or one of its permissions. */
  readonly rule: string;
  readonly by: string;
  /** Without the earlier rule the outcome would be another one. */
  readonly changesOutcome: boolean;
}

/** `intentions`: of one destination, in their order of precedence. Regexes have been prepared. */
export function shadowedRules(intentions: readonly Intention[]): readonly ShadowedRule[] {
  // A mesh without namespaces adds denials of the same rule for every namespace.
  const written = intentions.filter(({ rule }, index) =>
    index === 0 || intentions[index - 1]?.rule !== rule
  );
  return written.flatMap((intention, index) => {
    const earlier = written.slice(0, index).find((other) =>
      coversSource(sourceOf(other), sourceOf(intention))
    );
    if (!earlier) return shadowedPermissions(intention);
    return [{
      rule: intention.rule,
      by: earlier.rule,
      changesOutcome: earlier.action !== intention.action || intention.action === "permissions",
    }];
  });
}

type SourceRule = Intention["source"];

/** The source as it was written: denials cover every namespace where the mesh has none. */
function sourceOf({ rule, source }: Intention): SourceRule {
  return rule.startsWith("default/")
    ? { ...source, namespace: "default", partition: "default" }
    : source;
}

function coversSource(wide: SourceRule, narrow: SourceRule): boolean {
  if (wide.peer !== narrow.peer || (wide.uri ?? "") !== (narrow.uri ?? "")) return false;
  const parts = ["name", "namespace", "partition"] as const;
  return parts.every((part) => wide[part] === "*" || wide[part] === narrow[part]);
}

function shadowedPermissions({ rule, permissions = [] }: Intention): readonly ShadowedRule[] {
  const nameOf = (index: number) => {
    const permission = permissions[index];
    const text = permission ? compilePermission(permission).text : "";
    return `permission ${index + 1} (${text}) of ${rule}`;
  };
  return permissions.flatMap((permission, index) => {
    const earlier = permissions.slice(0, index).findIndex((other) =>
      coversRequests(other, permission)
    );
    if (earlier < 0) return [];
    const changesOutcome = permissions[earlier]?.action !== permission.action;
    return [{ rule: nameOf(index), by: nameOf(earlier), changesOutcome }];
  });
}

/** Whether `wide` covers every request that `narrow` covers; false where that cannot be told. */
function coversRequests(wide: Permission, narrow: Permission): boolean {
  const methods = wide.methods.length === 0 ||
    narrow.methods.length > 0 && narrow.methods.every((method) => wide.methods.includes(method));
  return methods && coversPath(wide.path, narrow.path) &&
    wide.headers.every((header) => narrow.headers.some((other) => isSameHeader(header, other)));
}

function coversPath(wide: PathMatch | undefined, narrow: PathMatch | undefined): boolean {
  if (!wide || wide.kind === "prefix" && wide.value === "/") return true;
  if (!narrow) return false;
  if (wide.kind === narrow.kind && wide.value === narrow.value) return true;
  return wide.kind === "prefix" && narrow.kind !== "regex" && narrow.value.startsWith(wide.value);
}

function isSameHeader(a: HeaderMatch, b: HeaderMatch): boolean {
  return a.name === b.name && a.kind === b.kind && a.value === b.value && a.invert === b.invert &&
    a.ignoreCase === b.ignoreCase;
}
