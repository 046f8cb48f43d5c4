/**
 * The load balancer of a service-resolver: what may be written, and the form in which it is kept.
 *
 * @module
 */

import { isObject, type Json, type JsonObject } from "../http/decode.ts";
import { numberAt, objectAt, textAt } from "../http/fields.ts";
import { withNs } from "../http/go_duration.ts";
import { Refusal } from "../http/refusal.ts";

const POLICIES = ["", "random", "round_robin", "least_request", "ring_hash", "maglev"];
/** Blocks, and the policy that each is for. */
const CONFIG_OF = { RingHashConfig: "ring_hash", LeastRequestConfig: "least_request" };
const HASHED = ["ring_hash", "maglev"];
const FIELDS = ["", "header", "cookie", "query_parameter"];

/** The part of the entry that differs from how it was written. */
export function normalLoadBalancer(entry: JsonObject): JsonObject {
  const balancer = objectAt(entry, "LoadBalancer");
  const policy = textAt(balancer, "Policy");
  if (!POLICIES.includes(policy)) {
    throw new Refusal(500, `Bad LoadBalancer policy: "${policy}" is not supported`);
  }
  for (const [config, of] of Object.entries(CONFIG_OF)) {
    if (!isObject(balancer[config]) || policy === of) continue;
    throw new Refusal(
      500,
      `Bad LoadBalancer configuration. ${config} specified for incompatible load balancing policy "${policy}"`,
    );
  }
  const policies = balancer["HashPolicies"];
  if (!Array.isArray(policies)) return {};
  if (policies.length > 0 && !HASHED.includes(policy)) {
    throw new Refusal(
      500,
      `Bad LoadBalancer configuration: HashPolicies specified for non-hash-based Policy: "${policy}"`,
    );
  }
  const kept = (policies as readonly Json[]).map((hash, index) => {
    if (!isObject(hash)) return hash;
    const fault = hashFault(hash);
    if (fault) throw new Refusal(500, `Bad LoadBalancer HashPolicy[${index}]: ${fault}`);
    const cookie = hash["CookieConfig"];
    return isObject(cookie) ? { ...hash, CookieConfig: withNs(cookie, ["TTL"]) } : hash;
  });
  return { LoadBalancer: { ...balancer, HashPolicies: kept } };
}

function hashFault(hash: JsonObject): string | undefined {
  const field = textAt(hash, "Field");
  if (!FIELDS.includes(field)) return `"${field}" is not a supported field`;
  if (hash["SourceIP"] === true && field !== "") {
    return `A single hash policy cannot hash both a source address and a "${field}"`;
  }
  const value = textAt(hash, "FieldValue");
  if (field !== "" && value === "") {
    return `Field "${field}" was specified without a FieldValue`;
  }
  if (field === "" && value !== "") return "FieldValue requires a Field to apply to";
  const cookie = hash["CookieConfig"];
  if (!isObject(cookie)) return undefined;
  if (field !== "cookie") return `cookie_config provided for "${field}"`;
  return cookie["Session"] === true && numberAt(withNs(cookie, ["TTL"]), "TTL") !== 0
    ? "a session cookie cannot have an associated TTL"
    : undefined;
}
