/**
 * The `service-intentions` config entry: what may be written, and the form in which it is kept.
 *
 * @module
 */

import { isObject, type Json, type JsonObject } from "../http/decode.ts";
import { dropEmpty } from "../catalog/records.ts";
import { Refusal } from "../http/refusal.ts";
import { numberAt, textAt } from "../http/fields.ts";
import { checkPermission } from "./intention_permission.ts";

/** 9, 8, 6 or 5 by how exact source and destination are; namespaces are always exact here. */
export function precedenceOf(source: string, destination: string): number {
  return (destination === "*" ? 6 : 9) - (source === "*" ? 1 : 0);
}

/** Refuses with Consul's words what it would refuse. Protocols are checked with the chains. */
export function checkIntentions(entry: JsonObject): void {
  const destination = textAt(entry, "Name");
  const sources = sourcesOf(entry);
  if (sources.length === 0) throw new Refusal(500, "At least one source is required");
  const seen = new Set<string>();
  for (const [at, source] of sources.entries()) {
    const name = textAt(source, "Name");
    const action = textAt(source, "Action");
    const permissions = permissionsOf(source);
    if (name === "") throw new Refusal(500, `Sources[${at}].Name is required`);
    if (name !== "*" && name.includes("*")) {
      throw new Refusal(
        500,
        `Sources[${at}].Name: wildcard character '*' cannot be used with partial values`,
      );
    }
    if (textAt(source, "Peer") === "*") {
      throw new Refusal(500, `Sources[${at}].Peer: cannot be '*'`);
    }
    if (permissions.length > 0) {
      if (action !== "") {
        throw new Refusal(
          500,
          `Sources[${at}].Action must be omitted if Permissions are specified`,
        );
      }
      if (destination === "*") {
        throw new Refusal(
          500,
          `Sources[${at}].Permissions cannot be specified on intentions with wildcarded destinations`,
        );
      }
      for (const [number, permission] of permissions.entries()) {
        checkPermission(permission, `Sources[${at}].Permissions[${number}]`);
      }
    } else if (action !== "allow" && action !== "deny") {
      throw new Refusal(500, `Sources[${at}].Action must be set to 'allow' or 'deny'`);
    }
    const key = `${textAt(source, "Peer")}/${name}`;
    if (seen.has(key)) throw new Refusal(500, `Sources[${at}] defines "${name}" more than once`);
    seen.add(key);
  }
}

/** Sources by precedence, in writing order within it, as the entry shows them. */
export function normalSources(entry: JsonObject): readonly JsonObject[] {
  const destination = textAt(entry, "Name");
  const sources = sourcesOf(entry).map((source) => {
    const permissions = permissionsOf(source).map((permission) => {
      const http = isObject(permission["HTTP"]) ? permission["HTTP"] : {};
      const methods = Array.isArray(http["Methods"])
        ? {
          Methods: (http["Methods"] as readonly Json[]).map((method) =>
            String(method).toUpperCase()
          ),
        }
        : {};
      return { ...permission, HTTP: { ...http, ...methods } };
    });
    return dropEmpty({
      Name: textAt(source, "Name"),
      Action: textAt(source, "Action"),
      Permissions: permissions,
      Precedence: precedenceOf(textAt(source, "Name"), destination),
      LegacyID: textAt(source, "LegacyID"),
      Type: "consul",
      Description: textAt(source, "Description"),
      LegacyCreateTime: textAt(source, "LegacyCreateTime"),
      LegacyUpdateTime: textAt(source, "LegacyUpdateTime"),
      Peer: textAt(source, "Peer"),
    }, [
      "Action",
      "Permissions",
      "LegacyID",
      "Description",
      "LegacyCreateTime",
      "LegacyUpdateTime",
      "Peer",
    ]);
  });
  return sources.sort((a, b) => numberAt(b, "Precedence") - numberAt(a, "Precedence"));
}

export function sourcesOf(entry: JsonObject): readonly JsonObject[] {
  return Array.isArray(entry["Sources"])
    ? (entry["Sources"] as readonly Json[]).filter(isObject)
    : [];
}

export function permissionsOf(source: JsonObject): readonly JsonObject[] {
  return Array.isArray(source["Permissions"])
    ? (source["Permissions"] as readonly Json[]).filter(isObject)
    : [];
}
