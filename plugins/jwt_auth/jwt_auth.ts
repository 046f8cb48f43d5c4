/**
 * Admits requests with tokens of trusted issuers, and passes their claims on. It treats tokens as Envoy does,
 * except for the differences in its README.
 *
 * @module
 */

import type {
  Answer,
  Host,
  HttpRequest,
  Next,
  Plugin,
  PluginDefinition,
  RequestArgs,
} from "../../src/plugin/api.ts";
import { type Claims, TOKEN_FAULTS, VERIFIED_CLAIMS } from "../../src/plugin/verified_claims.ts";
import { hasClaim } from "./claims.ts";
import { JwtAuthConfig, type Need, needsOf, type ProviderConfig } from "./config.ts";
import { Provider, type TokenOutcome } from "./provider.ts";
import { REFUSED, type Refused } from "./token.ts";

interface Checked {
  readonly need: Need;
  readonly provider: Provider;
  readonly outcome: TokenOutcome;
}

export default {
  name: "jwt_auth",
  api: 1,
  phase: "guard",
  config: JwtAuthConfig,
  async create(host, config): Promise<Plugin> {
    const { require } = config;
    const providers = new Map(
      await Promise.all(
        Object.entries(config.providers).map(async ([name, own]) =>
          [name, await (require ? Provider.make : providerOrNone)(name, own, host)] as const
        ),
      ),
    );
    const needs = require
      ? needsOf(require)
      : [...providers.keys()].map((provider) => ({ provider, verifyClaims: [] }));
    const wanted = needs.flatMap((need) => {
      const provider = providers.get(need.provider);
      return provider ? [{ need, provider }] : [];
    });
    // Also for a provider without keys: else callers could forge its payload header.
    const payloadHeaders = Object.values(config.providers).flatMap(({ forwarding }) =>
      forwarding ? [forwarding.headerName] : []
    );
    const judged = host.stats.counter("requests", {
      help: "Requests whose token was checked, by result",
      labels: { result: ["let_in", "missing", "refused"] },
    });

    const decide = (
      { request, exchange }: RequestArgs,
      next: Next,
      outcomes: readonly TokenOutcome[],
    ): Answer => {
      const good: Checked[] = [];
      const whys: Refused[] = [];
      for (const [index, { need, provider }] of wanted.entries()) {
        const outcome = outcomes[index] ?? { kind: "refused", why: REFUSED.missing };
        const why = whyNot(need, outcome);
        if (why) whys.push(why);
        else good.push({ need, provider, outcome });
      }
      const why = mainReasonOf(whys);
      const isGood = require && "all" in require ? whys.length === 0 : good.length > 0;
      const result = why === REFUSED.missing ? "missing" : "refused";
      judged.add(1, { result: isGood ? "let_in" : result });
      if (require && !isGood) {
        if (why === REFUSED.audience || why === REFUSED.claim) return host.refuse("denied", why);
        return host.refuse("unauthenticated", why)
          .with({ headers: { set: { "www-authenticate": challenge(request, why) } } });
      }
      exchange.set(VERIFIED_CLAIMS, claimsOf(good));
      if (whys.length > 0) exchange.set(TOKEN_FAULTS, faultsOf(wanted, outcomes));
      return next({ request: withPayloads(request, good, payloadHeaders) });
    };

    return {
      onRequest(args, next) {
        const outcomes = wanted.map(({ provider }) => provider.check(args.request));
        if (outcomes.every(isKnown)) return decide(args, next, outcomes);
        return Promise.all(outcomes).then((known) => decide(args, next, known));
      },
    };
  },
} satisfies PluginDefinition<typeof JwtAuthConfig>;

/** `undefined`: the provider has no usable keys, and its tokens stay unverified. */
async function providerOrNone(
  name: string,
  config: ProviderConfig,
  host: Host,
): Promise<Provider | undefined> {
  try {
    return await Provider.make(name, config, host);
  } catch (error) {
    host.log.error("no token of a provider can be verified", {
      provider: name,
      reason: error instanceof Error ? error.message : String(error),
    });
    return undefined;
  }
}

function isKnown(outcome: TokenOutcome | Promise<TokenOutcome>): outcome is TokenOutcome {
  return "kind" in outcome;
}

function whyNot({ verifyClaims }: Need, outcome: TokenOutcome): Refused | undefined {
  if (outcome.kind === "refused") return outcome.why;
  const { claims } = outcome;
  return verifyClaims.every(({ path, value }) => hasClaim(claims, path, value))
    ? undefined
    : REFUSED.claim;
}

/** Prefers the fault of a token that was sent to the absence of another token. */
function mainReasonOf(whys: readonly Refused[]): Refused {
  return whys.find((why) => why !== REFUSED.missing && why !== REFUSED.issuer) ??
    whys.find((why) => why === REFUSED.issuer) ?? REFUSED.missing;
}

/** The `WWW-Authenticate` challenge, in Envoy's form. */
function challenge({ scheme, authority, path }: HttpRequest, why: Refused): string {
  const [base = ""] = path.split("?", 1);
  const realm = `${scheme || "http"}://${authority}${base}`.slice(0, 256).replace(/["\\]/g, "");
  return `Bearer realm="${realm}"${why === REFUSED.missing ? "" : ', error="invalid_token"'}`;
}

function claimsOf(good: readonly Checked[]): ReadonlyMap<string, Claims> {
  return new Map(
    good.flatMap(({ provider, outcome }) =>
      outcome.kind === "good" ? [[provider.name, outcome.claims]] : []
    ),
  );
}

/** The provider and the reason of each refused token, for operators. */
function faultsOf(
  wanted: readonly { readonly provider: Provider }[],
  outcomes: readonly TokenOutcome[],
): ReadonlyMap<string, Refused> {
  return new Map(
    wanted.flatMap(({ provider: { name } }, index) => {
      const outcome = outcomes[index];
      return outcome?.kind === "refused" ? [[name, outcome.why]] : [];
    }),
  );
}

/** Only the proxy sets the payload headers of verified tokens. */
function withPayloads(
  request: HttpRequest,
  good: readonly Checked[],
  payloadHeaders: readonly string[],
): HttpRequest {
  let changed = request;
  for (const { provider } of good) changed = provider.locations.without(changed);
  const set: Record<string, string> = {};
  for (const { provider: { config: { forwarding } }, outcome } of good) {
    if (!forwarding || outcome.kind !== "good") continue;
    const { payload } = outcome;
    const padding = forwarding.padForwardPayloadHeader ? (4 - payload.length % 4) % 4 : 0;
    set[forwarding.headerName] = payload + "=".repeat(padding);
  }
  if (payloadHeaders.length === 0) return changed;
  return changed.with({ headers: { remove: payloadHeaders, set } });
}
