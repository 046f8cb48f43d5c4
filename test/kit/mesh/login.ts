/**
 * Logging in to a mesh: a JWT auth method whose keys are the test's own, and what its operator sees of
 * the tokens that it gave.
 *
 * @module
 */

import { generateKeyPairSync } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { SignJWT } from "jose";
import type { Mesh } from "./mesh.ts";

const METHOD = "jwt";
const ISSUER = "postern-test";
const AUDIENCE = "consul";

interface ListedToken {
  readonly AccessorID: string;
  readonly SecretID: string;
  readonly Description: string;
}

export interface Logins {
  /** Flags of a proxy that logs in with {@link bearer}'s file. */
  readonly flags: readonly string[];
  readonly file: string;
  /** The method and its rule are there, from now on or again. */
  create(): Promise<void>;
  /** Removes the auth method, with all of its tokens. */
  remove(): Promise<void>;
  /** A bearer token for `web`, unless `claims` say otherwise; written to the file and returned. */
  bearer(claims?: Readonly<Record<string, unknown>>): Promise<string>;
  /** Tokens of logins that are valid. */
  tokens(): Promise<readonly ListedToken[]>;
}

export function loginsOf(
  mesh: Mesh,
  { directory, ttl }: { readonly directory: string; readonly ttl?: string },
): Logins {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const file = join(directory, "bearer");
  const path = `/v1/acl/auth-method/${METHOD}`;
  return {
    file,
    flags: ["-login-auth-method", METHOD, "-login-bearer-token-file", file],
    async create() {
      await mesh.put("/v1/acl/auth-method", {
        Name: METHOD,
        Type: "jwt",
        TokenLocality: "local",
        ...(ttl ? { MaxTokenTTL: ttl } : {}),
        Config: {
          JWTValidationPubKeys: [publicKey.export({ type: "spki", format: "pem" })],
          BoundIssuer: ISSUER,
          BoundAudiences: [AUDIENCE],
          ClaimMappings: { svc: "service" },
        },
      });
      await mesh.put("/v1/acl/binding-rule", {
        AuthMethod: METHOD,
        BindType: "service",
        BindName: "${value.service}",
        Selector: 'value.service != "nobody"',
      });
    },
    async remove() {
      const { status } = await mesh.call("DELETE", path);
      if (status !== 200) throw new Error(`DELETE ${path}: ${status}`);
    },
    async bearer(claims = {}) {
      const token = await new SignJWT({ svc: "web", ...claims })
        .setProtectedHeader({ alg: "ES256" })
        .setIssuer(ISSUER)
        .setAudience(typeof claims.aud === "string" ? claims.aud : AUDIENCE)
        .setIssuedAt()
        .setExpirationTime(typeof claims.exp === "number" ? claims.exp : "1h")
        .sign(privateKey);
      await writeFile(file, `${token}\n`);
      return token;
    },
    tokens: () => mesh.get<ListedToken[]>(`/v1/acl/tokens?authmethod=${METHOD}`),
  };
}
