/** The plugin `jwt_auth` mounted alone, and its treatment of requests with tokens. @module */

import { type Claims, VERIFIED_CLAIMS } from "../../../src/plugin/verified_claims.ts";
import jwtAuth from "../../../plugins/jwt_auth/jwt_auth.ts";
import { mount, type Mounted, type SeenRequest } from "../../../src/kit/mod.ts";
import type { Plugin } from "../../../src/plugin/api.ts";
import { ISSUER, type Issuer } from "../certs/tokens.ts";

export interface TokenRequest {
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
}

export interface TokenOutcome {
  readonly status: number;
  /** Why it was not let in. */
  readonly reason: string | undefined;
  readonly body: string;
  readonly challenge: string | undefined;
  /** The request that reached the endpoint. */
  readonly sent: SeenRequest | undefined;
  /** The claims that layers further in get. */
  readonly claims: ReadonlyMap<string, Claims> | undefined;
}

interface MountedJwtAuth extends AsyncDisposable {
  readonly plugin: Mounted;
  ask(request: TokenRequest): Promise<TokenOutcome>;
}

export async function mountJwtAuth(config: unknown): Promise<MountedJwtAuth> {
  let claims: TokenOutcome["claims"];
  const definition = {
    ...jwtAuth,
    async create(...given: Parameters<typeof jwtAuth.create>): Promise<Plugin> {
      const made = await jwtAuth.create(...given);
      return {
        onRequest: (args, next) =>
          made.onRequest?.(args, (change) => {
            claims = args.exchange.get(VERIFIED_CLAIMS);
            return next(change);
          }) ?? next(),
      };
    },
  };
  const plugin = await mount(definition, { config });
  return {
    plugin,
    async ask(request) {
      claims = undefined;
      const before = plugin.upstream.requests.length;
      const { status, headers, body, failure } = await plugin.request(request);
      return {
        status,
        reason: failure?.reason,
        body,
        challenge: headers.get("www-authenticate"),
        sent: plugin.upstream.requests[before],
        claims,
      };
    },
    [Symbol.asyncDispose]: () => plugin[Symbol.asyncDispose](),
  };
}

/** As a configuration names one. */
export function providerOf(issuer: Issuer, more: object = {}): Record<string, unknown> {
  return { issuer: ISSUER, jsonWebKeySet: { local: { jwks: issuer.jwks } }, ...more };
}

export function bearer(
  ...tokens: readonly string[]
): { readonly authorization: readonly string[] } {
  return { authorization: tokens.map((token) => `Bearer ${token}`) };
}
