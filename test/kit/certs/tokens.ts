/** An issuer of tokens for tests: keys of its own, and the tokens it signs with them. @module */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, type JWK, SignJWT } from "jose";

export interface Issuer {
  readonly jwk: JWK;
  /** As `jsonWebKeySet.local.jwks` wants it. */
  readonly jwks: string;
  sign(claims?: Record<string, unknown>, header?: Record<string, unknown>): Promise<string>;
}

export const ISSUER = "https://idp.example";

export async function makeIssuer(kid = "one", alg = "ES256"): Promise<Issuer> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const jwk = { ...await exportJWK(publicKey), kid, alg, use: "sig" };
  return {
    jwk,
    jwks: btoa(JSON.stringify({ keys: [jwk] })),
    sign: (claims = {}, header = {}) =>
      new SignJWT({ iss: ISSUER, ...claims })
        .setProtectedHeader({ alg, kid, ...header })
        .sign(privateKey),
  };
}

/** Header and payload as they are given, with that signature. */
export function rawToken(header: unknown, claims: unknown, signature = "AAAA"): string {
  return `${encoded(header)}.${encoded(claims)}.${signature}`;
}

function encoded(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export function keySetOf(...issuers: readonly Pick<Issuer, "jwk">[]): string {
  return JSON.stringify({ keys: issuers.map(({ jwk }) => jwk) });
}

/** Where an issuer publishes its keys; the answer can be changed. */
interface KeyServer extends AsyncDisposable {
  readonly uri: string;
  asked: number;
  status: number;
  location: string;
  body: string;
}

export async function startKeyServer(body: string): Promise<KeyServer> {
  const server = createServer((_, response) => {
    it.asked++;
    response.writeHead(it.status, it.location === "" ? {} : { location: it.location });
    response.end(it.body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const it: KeyServer = {
    asked: 0,
    status: 200,
    location: "",
    body,
    uri: `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return it;
}
