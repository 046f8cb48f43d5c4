/** The agent's intentions as they hold here, and the plugin that verifies the tokens they demand. @module */

import type { Intentions, JwtKeys, JwtProvider, Registration } from "../../consul/mod.ts";
import { headerFault } from "../../http/mod.ts";
import { type TokenNeed, withoutTenancy } from "../../policy/mod.ts";
import type { PluginUse, Refusal } from "../../snapshot/mod.ts";

/** By name; `null`: there is no such entry; absent: it was never read. */
export type JwtProviders = ReadonlyMap<string, JwtProvider | null>;

/** A mesh has few; each may fetch keys, and each checks every request. */
export const MAX_PROVIDERS = 16;
const MAX_LOCATIONS = 16;
const MAX_CACHE = 100_000;
const MAX_RETRIES = 100;
const MAX_MS = 2 ** 31 - 1;
/** The plugin's: a generation of plugins is made within five seconds. */
const MAX_REQUEST_MS = 4_000;
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Consul's, and Envoy's where Consul has none. */
const DEFAULTS = {
  cacheSize: 100,
  cacheMs: 300_000,
  requestMs: 2_000,
  baseMs: 1_000,
  maxMs: 10_000,
};

/** The fault of a provider that may be read any moment. */
const UNREAD = "it has not been read";

/** Names of all providers that some intention demands a token of, sorted. */
export function providersOf(intentions: Intentions): readonly string[] {
  const needs = intentions.flatMap(({ tokens = [], permissions = [] }) => [
    ...tokens,
    ...permissions.flatMap((permission) => permission.tokens ?? []),
  ]);
  return [...new Set(needs.map(({ provider }) => provider))].sort();
}

interface TokenPlugins {
  readonly intentions: Intentions;
  readonly use: PluginUse | undefined;
  /** Providers that are not read yet: claims of their tokens could be forged on a listener that opens. */
  readonly unread: readonly string[];
}

/** On a tcp service no token is read, and `authorize` demands none. */
export function judgeTokens(
  intentions: Intentions,
  providers: JwtProviders,
  { http }: { readonly http: boolean },
): TokenPlugins {
  if (!http) return { intentions, use: undefined, unread: [] };
  const names = providersOf(intentions);
  const configs: Record<string, unknown> = {};
  const faults = new Map<string, string>();
  for (const [index, name] of names.entries()) {
    const provider = providers.get(name);
    const fault = index < MAX_PROVIDERS
      ? faultOf(provider)
      : `there are more than ${MAX_PROVIDERS} providers`;
    if (fault !== undefined) {
      faults.set(name, fault);
      const { headerName } = provider?.kind === "usable"
        ? provider.forwarding ?? {}
        : provider ?? {};
      if (headerName && !headerFault(headerName)) {
        configs[name] = withoutKeys(name, headerName);
      }
    } else if (provider?.kind === "usable") configs[name] = configOf(provider);
  }
  return {
    intentions: faults.size === 0 ? intentions : intentions.map((intention) => {
      const { permissions } = intention;
      return {
        ...refusing(intention, faults),
        ...(permissions && {
          permissions: permissions.map((permission) => refusing(permission, faults)),
        }),
      };
    }),
    use: Object.keys(configs).length === 0 ? undefined : {
      plugin: "jwt_auth",
      config: { providers: configs },
      onFailure: "refuse",
      at: "jwt-provider",
    },
    unread: names.slice(0, MAX_PROVIDERS).filter((name) => !providers.has(name)),
  };
}

/** A provider without keys: its forwarding header is removed from every request. */
function withoutKeys(issuer: string, headerName: string): unknown {
  const jwks = btoa('{"keys":[]}');
  return { issuer, jsonWebKeySet: { local: { jwks } }, forwarding: { headerName } };
}

/** Refuses a rule when none of its providers can be used. */
function refusing<T extends { readonly tokens?: readonly TokenNeed[]; readonly refused?: string }>(
  rule: T,
  faults: ReadonlyMap<string, string>,
): T {
  const { tokens, refused } = rule;
  const [first] = tokens ?? [];
  if (!tokens || !first || refused !== undefined) return rule;
  if (!tokens.every(({ provider }) => faults.has(provider))) return rule;
  const { provider } = first;
  const reason = `jwt-provider ${JSON.stringify(provider)}: ${faults.get(provider)}`;
  return { ...rule, refused: `its tokens cannot be verified: ${reason}` };
}

/** Why its tokens cannot be verified; `undefined`: they can. */
function faultOf(provider: JwtProvider | null | undefined): string | undefined {
  if (provider === undefined) return UNREAD;
  if (provider === null) return "there is none";
  if (provider.kind === "refused") return provider.reason;
  const { issuer, locations, forwarding, clockSkewSeconds, cacheSize = 0 } = provider;
  if (issuer === "") return "it has no issuer";
  if (clockSkewSeconds < 0 || cacheSize < 0) return "it has a number below 0";
  if (locations.length > MAX_LOCATIONS) return `it has more than ${MAX_LOCATIONS} locations`;
  const headers = locations.flatMap((location) => "header" in location ? location.header.name : []);
  const fault = forwarding && headerFault(forwarding.headerName);
  if (fault) return `${JSON.stringify(forwarding.headerName)} cannot be forwarded: it ${fault}`;
  const invalid = headers.find((name) => !HEADER_NAME.test(name));
  if (invalid !== undefined) return `${JSON.stringify(invalid)} is no header's name`;
  return keysFault(provider.keys);
}

function keysFault(keys: JwtKeys): string | undefined {
  switch (keys.kind) {
    case "file":
      return keys.filename.startsWith("/") ? undefined : "JSONWebKeySet.Local.Filename is relative";
    case "text": {
      const isBase64 = keys.jwks.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(keys.jwks);
      return isBase64 ? undefined : "JSONWebKeySet.Local.JWKS is not Base64";
    }
    case "remote": {
      const { cacheDurationMs, requestTimeoutMs, retries, baseIntervalMs, maxIntervalMs } = keys;
      const numbers = [cacheDurationMs, requestTimeoutMs, retries, baseIntervalMs, maxIntervalMs];
      if (numbers.some((number) => number < 0)) return "JSONWebKeySet.Remote has a number below 0";
      const isUrl = /^https?:\/\//.test(keys.uri) && URL.canParse(keys.uri);
      return isUrl ? undefined : "JSONWebKeySet.Remote.URI is neither http nor https";
    }
  }
}

/** As `jwt_auth` has it. */
function configOf(provider: Extract<JwtProvider, { kind: "usable" }>): unknown {
  const { issuer, audiences, locations, forwarding, clockSkewSeconds, cacheSize } = provider;
  return {
    issuer,
    audiences: audiences.filter((audience) => audience !== ""),
    jsonWebKeySet: keySetOf(provider.keys),
    ...(locations.length > 0 && { locations }),
    ...(forwarding && { forwarding }),
    clockSkewSeconds,
    cacheConfig: { size: Math.min(cacheSize ?? DEFAULTS.cacheSize, MAX_CACHE) },
  };
}

function keySetOf(keys: JwtKeys): unknown {
  if (keys.kind === "file") return { local: { filename: keys.filename } };
  if (keys.kind === "text") return { local: { jwks: keys.jwks } };
  return {
    remote: {
      uri: keys.uri,
      cacheDuration: duration(keys.cacheDurationMs, DEFAULTS.cacheMs),
      fetchAsynchronously: keys.fetchAsynchronously,
      requestTimeoutMs: Math.min(keys.requestTimeoutMs || DEFAULTS.requestMs, MAX_REQUEST_MS),
      retryPolicy: {
        numRetries: Math.min(keys.retries, MAX_RETRIES),
        retryPolicyBackOff: {
          baseInterval: duration(keys.baseIntervalMs, DEFAULTS.baseMs),
          maxInterval: duration(keys.maxIntervalMs, DEFAULTS.maxMs),
        },
      },
    },
  };
}

function duration(ms: number, absentMs: number): string {
  return `${Math.min(Math.ceil(ms || absentMs), MAX_MS)}ms`;
}

/** More are only counted: a line is for people. */
const NAMED = 5;

export function intentionsFor(registration: Registration, intentions: Intentions): Intentions {
  return registration.hasTenancy ? intentions : withoutTenancy(intentions);
}

/**
 * Intentions that look like an allowance and are none: permissions on a service that does not speak HTTP,
 * and permissions of an HTTP service that cannot be judged.
 */
export function refusedIntentions(
  intentions: Intentions,
  { http, isAwaited = false }: {
    readonly http: boolean;
    /** Missing entries are still being read: they are not reported yet. */
    readonly isAwaited?: boolean;
  },
): readonly Refusal[] {
  if (http) {
    const what = "intentions that cannot be judged";
    const faults = intentions.flatMap(faultsOf)
      .filter((fault) => !isAwaited || !fault.endsWith(`: ${UNREAD}`));
    return refusalOf(what, "what they cover is denied", faults);
  }
  const named = (wanted: (intention: Intentions[number]) => boolean) =>
    intentions.filter(wanted).map(({ rule }) => rule);
  return [
    ...refusalOf(
      "intentions with permissions",
      "permissions are about HTTP requests, which are not looked at on a tcp service: each denies " +
        "every connection of its source; write Action instead, or say what it speaks",
      named(({ action }) => action === "permissions"),
    ),
    ...refusalOf(
      "intentions with JWT",
      "tokens are in HTTP requests, which are not looked at on a tcp service: as in Consul each " +
        "allows its source without one",
      named(({ action, tokens }) => action === "allow" && tokens !== undefined),
    ),
  ];
}

function refusalOf(what: string, fact: string, rules: readonly string[]): readonly Refusal[] {
  if (rules.length === 0) return [];
  const more = rules.length > NAMED ? ` and ${rules.length - NAMED} more` : "";
  return [{ what, reason: `${fact}: ${rules.slice(0, NAMED).join(", ")}${more}` }];
}

function faultsOf({ rule, refused, permissions = [] }: Intentions[number]): readonly string[] {
  if (refused !== undefined) return [`${rule}: ${refused}`];
  return permissions.flatMap((permission, index) =>
    permission.refused === undefined
      ? []
      : [`${rule}, permission ${index + 1}: ${permission.refused}`]
  );
}
