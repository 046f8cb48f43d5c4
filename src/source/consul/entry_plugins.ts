/**
 * Settings of service-defaults and proxy-defaults for the public listener's requests, as plugins that
 * implement them. A setting without a plugin is reported as ignored; if it is required, or limits callers,
 * the listener does not change and does not open.
 *
 * @module
 */

import { compileRegex } from "../../base/mod.ts";
import type {
  Defaults,
  EnvoyExtension,
  InstanceRateLimits,
  RequestRate,
  RouteRateLimit,
} from "../../consul/mod.ts";
import type { PluginUse, Refusal, UpstreamPart } from "../../snapshot/mod.ts";
import { convertExtAuthz, EXT_AUTHZ } from "./ext_authz_extension.ts";
import type { ConsulState } from "./consul_state.ts";

interface EntryPlugins {
  readonly uses: readonly PluginUse[];
  readonly refused: readonly Refusal[];
  /** Settings that are left out without harm to the others, a sentence each. */
  readonly ignored: readonly string[];
  /** Why the listener may not change, nor open; empty: it may. */
  readonly blocked: readonly string[];
}

/** Limits of `rate_limit`. */
const MAX_PER_SECOND = 1_000_000;
const MAX_BURST = 1_000_000;
const MAX_FILL_S = 86_400;
const MAX_PATHS = 100;

export function entryPlugins(
  { proxyDefaults, serviceDefaults }: Pick<ConsulState, "proxyDefaults" | "serviceDefaults">,
  { service, http, isOpen = false, upstreams = [] }: {
    readonly service: string;
    readonly http: boolean;
    /** The public listener has settings from before. */
    readonly isOpen?: boolean;
    readonly upstreams?: readonly UpstreamPart[];
  },
): EntryPlugins {
  const uses: PluginUse[] = [];
  const refused: Refusal[] = [];
  const ignored: string[] = [];
  const blocked: string[] = [];
  const outcome = isOpen ? KEEPS : CLOSED;
  const entries: readonly (readonly [string, Defaults | null | undefined])[] = [
    ["proxy-defaults global", proxyDefaults],
    [`service-defaults ${service}`, serviceDefaults],
  ];
  for (const [entry, defaults] of entries) {
    // The entry may have an access control.
    if (defaults === undefined) blocked.push(`${entry} has not been read`);
    for (const [index, extension] of (defaults?.extensions ?? []).entries()) {
      if (!isOfSidecars(extension)) continue;
      const at = `EnvoyExtensions[${index}]`;
      const isSecond = uses.some(({ plugin }) => plugin === "ext_authz");
      const made = pluginOf(extension, { http, upstreams, isSecond });
      if ("config" in made) {
        const { config } = made;
        uses.push({ plugin: "ext_authz", config, onFailure: "refuse", at: `${entry}: ${at}` });
        continue;
      }
      const fact = `${at}: "${extension.name}" ${made.fault}`;
      if (!extension.required) {
        ignored.push(`${entry}: ${fact}`);
        continue;
      }
      refused.push({ what: entry, reason: `${fact}, and is Required: ${outcome}` });
      blocked.push(`${entry}: ${fact}`);
    }
  }
  const limits = serviceDefaults?.rateLimits;
  if (limits) {
    const entry = `service-defaults ${service}`;
    const fault = http ? faultOf(limits) : undefined;
    const at = `${entry}: RateLimits.InstanceLevel`;
    if (!http) ignored.push(`${entry}: RateLimits are about requests, not bytes`);
    else if (fault === undefined) {
      // A request over the limit reaches no authorization server.
      uses.unshift({ plugin: "rate_limit", config: configOf(limits), onFailure: "refuse", at });
    } else {
      refused.push({ what: entry, reason: `RateLimits.InstanceLevel${fault}: ${outcome}` });
      blocked.push(`${at}${fault}`);
    }
  }
  return { uses, refused, ignored, blocked };
}

const CLOSED = "the public listener does not open";
const KEEPS =
  "the public listener keeps its settings from before, and does not open at the next start";

function pluginOf(extension: EnvoyExtension, { http, upstreams, isSecond }: {
  readonly http: boolean;
  readonly upstreams: readonly UpstreamPart[];
  readonly isSecond: boolean;
}): ReturnType<typeof convertExtAuthz> {
  if (extension.name !== EXT_AUTHZ) return { fault: "has no plugin here" };
  if (!http) return { fault: "is about requests here, not bytes" };
  if (isSecond) return { fault: "is there already" };
  return convertExtAuthz(extension, upstreams);
}

/** Others are about gateways. */
function isOfSidecars({ arguments: given }: EnvoyExtension): boolean {
  if (typeof given !== "object" || given === null || !("ProxyType" in given)) return true;
  return given.ProxyType === "" || given.ProxyType === "connect-proxy";
}

function faultOf(limits: InstanceRateLimits): string | undefined {
  if (isNegative(limits)) return " has a number below 0";
  if (limits.routes.length > MAX_PATHS) return ` has more than ${MAX_PATHS} routes`;
  for (const [index, route] of limits.routes.entries()) {
    const at = `.Routes[${index}]`;
    const paths = [route.exact, route.prefix, route.regex].filter((path) => path !== "");
    if (paths.length !== 1) return `${at} has not exactly one path`;
    if (isNegative(route)) return `${at} has a number below 0`;
    const path = route.exact || route.prefix || "/";
    if (!path.startsWith("/")) return `${at} has a path that does not begin with "/"`;
    const regex = route.regex === "" ? undefined : compileRegex(route.regex);
    if (regex?.kind === "refused") return `${at}.PathRegex: ${regex.reason}`;
  }
  return undefined;
}

function isNegative({ requestsPerSecond, burst }: RequestRate): boolean {
  return requestsPerSecond < 0 || burst < 0;
}

function configOf(limits: InstanceRateLimits): unknown {
  return {
    limits: limitOf(limits),
    paths: limits.routes.map((route) => ({ ...pathOf(route), limits: limitOf(route) })),
  };
}

function pathOf({ exact, prefix, regex }: RouteRateLimit): object {
  if (exact !== "") return { exact };
  return prefix === "" ? { regex } : { prefix };
}

function limitOf({ requestsPerSecond, burst }: RequestRate): readonly unknown[] {
  if (requestsPerSecond === 0) return [];
  const perSecond = Math.min(requestsPerSecond, MAX_PER_SECOND);
  const most = Math.min(MAX_BURST, MAX_FILL_S * perSecond);
  return [{ requestsPerSecond: perSecond, burst: Math.min(burst || perSecond, most) }];
}
