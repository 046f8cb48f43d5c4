/**
 * A resolver's balancing policy, and the parts of a request that it hashes.
 *
 * @module
 */

import type {
  ChainBalancing,
  ChainCookie,
  ChainHashPolicy,
  HashPolicy,
  LoadBalancing,
  MadeCookie,
} from "./compiled_chain.ts";

/** Envoy's default; fewer than two would not be a choice. */
const CHOICE_COUNT = 2;
const RING_MINIMUM = 1024;
const RING_MAXIMUM = 8_388_608;

/** Envoy's defaults for absent members (or 0); `undefined`: an unknown policy. */
export function loadBalancing(balancing: ChainBalancing): LoadBalancing | undefined {
  switch (balancing.policy) {
    case "":
    case "round_robin":
      return { kind: "round_robin" };
    case "random":
      return { kind: "random" };
    case "maglev":
      return { kind: "maglev" };
    case "least_request":
      return {
        kind: "least_request",
        choiceCount: Math.max(balancing.choiceCount || CHOICE_COUNT, CHOICE_COUNT),
      };
    case "ring_hash": {
      const maximumSize = balancing.maximumRingSize || RING_MAXIMUM;
      const minimumSize = Math.min(balancing.minimumRingSize || RING_MINIMUM, maximumSize);
      return { kind: "ring_hash", minimumSize, maximumSize };
    }
    default:
      return undefined;
  }
}

export type HashPolicies =
  | { readonly kind: "taken"; readonly policies: readonly HashPolicy[] }
  | { readonly kind: "refused"; readonly reason: string };

/** A cookie's name (RFC 6265 4.1.1), and a path that cannot be taken for another attribute. */
const COOKIE_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const COOKIE_PATH = /^[ -:<-~]*$/;

export function hashPolicies(balancing: ChainBalancing | undefined): HashPolicies {
  const policies: HashPolicy[] = [];
  for (const [index, written] of (balancing?.hashPolicies ?? []).entries()) {
    const policy = hashPolicy(written);
    if (typeof policy === "string") {
      return { kind: "refused", reason: `LoadBalancer.HashPolicies[${index}] ${policy}` };
    }
    policies.push(policy);
  }
  return { kind: "taken", policies };
}

/** A text: why it cannot be followed. Consul checks less, and Envoy then keeps its earlier state. */
function hashPolicy(written: ChainHashPolicy): HashPolicy | string {
  const { field, name, sourceIp, terminal, cookie } = written;
  if (sourceIp) return { kind: "source", terminal };
  switch (field) {
    case "header":
      return { kind: "header", name: name.toLowerCase(), terminal };
    case "query_parameter":
      return { kind: "query", name, terminal };
    case "cookie": {
      const fault = cookieFault(name, cookie);
      return fault ?? { kind: "cookie", name, made: madeCookie(cookie), terminal };
    }
    default:
      return field === "" ? "names nothing to hash" : `hashes "${field}", which nobody knows`;
  }
}

function madeCookie(cookie: ChainCookie | null): MadeCookie | null {
  if (!cookie || !cookie.isSession && cookie.ttlMs === 0) return null;
  const { isSession, ttlMs, path } = cookie;
  return { maxAgeSeconds: isSession ? 0 : Math.floor(ttlMs / 1_000), path };
}

function cookieFault(name: string, cookie: ChainCookie | null): string | undefined {
  if (!cookie) return undefined;
  if (cookie.ttlMs < 0) return "makes a cookie of a negative TTL";
  if (!madeCookie(cookie)) return undefined;
  if (!COOKIE_NAME.test(name)) return `makes a cookie of the name ${JSON.stringify(name)}`;
  return COOKIE_PATH.test(cookie.path) ? undefined : "makes a cookie of a path that it cannot have";
}
