/**
 * What Consul checks and mends when a config entry is written: values, durations, blocks that are
 * always shown. Whether entries fit together is `validate_entries.ts`'s.
 *
 * @module
 */

import { parseBexpr } from "../http/bexpr.ts";
import { isObject, type Json, type JsonObject } from "../http/decode.ts";
import { numberAt, objectAt, textAt } from "../http/fields.ts";
import { durationNs, goDuration } from "../http/go_duration.ts";
import { checkIntentions, normalSources } from "./intention_entry.ts";
import { normalLoadBalancer } from "./load_balancer.ts";
import { normalJwtProvider } from "./jwt_provider.ts";
import { isEmpty } from "../catalog/records.ts";
import { Refusal } from "../http/refusal.ts";
import { normalMesh, normalProxyDefaults, withoutLocality } from "./mesh_entries.ts";
import { normalServiceDefaults } from "./service_defaults.ts";

/** The entry as it is stored: checked, durations in Consul's spelling, blocks that are always shown. */
export function normalEntry(entry: JsonObject): JsonObject {
  const kind = textAt(entry, "Kind");
  switch (kind) {
    case "service-defaults":
      return normalServiceDefaults(entry);
    case "proxy-defaults":
      return normalProxyDefaults(entry);
    case "mesh":
      return normalMesh(entry);
    case "service-resolver":
      return resolver(entry);
    case "service-splitter":
      return splitter(entry);
    case "service-router":
      return router(entry);
    case "jwt-provider":
      return normalJwtProvider(entry);
    case "service-intentions":
      checkIntentions(entry);
      return { ...entry, Sources: normalSources(entry) };
    default:
      return entry;
  }
}

function resolver(entry: JsonObject): JsonObject {
  const subsets = objectAt(entry, "Subsets");
  for (const [name, subset] of Object.entries(subsets)) {
    const filter = isObject(subset) ? textAt(subset, "Filter") : "";
    try {
      if (filter !== "") parseBexpr(filter);
    } catch (error) {
      const text = error instanceof Error ? error.message : "";
      throw new Refusal(500, `Filter for subset "${name}" is not a valid expression: ${text}`);
    }
  }
  const chosen = textAt(entry, "DefaultSubset");
  if (chosen !== "" && !(chosen in subsets)) {
    throw new Refusal(500, `DefaultSubset "${chosen}" is not a valid subset`);
  }
  if (isObject(entry["Redirect"]) && isEmpty(entry["Redirect"])) {
    throw new Refusal(500, "Redirect is empty");
  }
  for (const [subset, failover] of Object.entries(objectAt(entry, "Failover"))) {
    if (isEmpty(failover)) {
      throw new Refusal(
        500,
        `Bad Failover["${subset}"]: one of Service, ServiceSubset, Namespace, Targets, SamenessGroup, or Datacenters is required`,
      );
    }
    if (subset !== "*" && !(subset in subsets)) {
      throw new Refusal(500, `Bad Failover["${subset}"]: not a valid subset subset`);
    }
  }
  return {
    ...goDurations(withoutLocality(entry), ["ConnectTimeout", "RequestTimeout"]),
    ...normalLoadBalancer(entry),
  };
}

function splitter(entry: JsonObject): JsonObject {
  const splits = Array.isArray(entry["Splits"]) ? entry["Splits"] as readonly Json[] : [];
  if (splits.length === 0) throw new Refusal(500, "no splits configured");
  const sum = splits.reduce(
    (all: number, split) => all + (isObject(split) ? numberAt(split, "Weight") : 0),
    0,
  );
  if (Math.abs(sum - 100) > 0.005) {
    throw new Refusal(500, `the sum of all split weights must be 100, not ${sum.toFixed(6)}`);
  }
  return entry;
}

function router(entry: JsonObject): JsonObject {
  const routes = Array.isArray(entry["Routes"]) ? entry["Routes"] as readonly Json[] : [];
  return {
    ...entry,
    Routes: routes.map((route) =>
      isObject(route) && isObject(route["Destination"])
        ? {
          ...route,
          Destination: goDurations(route["Destination"], ["RequestTimeout", "IdleTimeout"]),
        }
        : route
    ),
  };
}

function goDurations(object: JsonObject, keys: readonly string[]): JsonObject {
  const result: Record<string, Json> = { ...object };
  for (const key of keys) {
    if (key in object) result[key] = goDuration(durationNs(object[key] ?? null, key));
  }
  return result;
}
