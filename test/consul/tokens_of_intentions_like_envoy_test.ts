/**
 * Intentions that demand tokens, one instance behind Envoy and one behind Postern on the same Consul:
 * the same requests get in, and the application gets the same claims of their tokens.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { fieldOf } from "../../src/http/mod.ts";
import { startConsul } from "../kit/mesh/consul.ts";
import { answerOf, startRawOrigin } from "../kit/wire/http_raw.ts";
import { startHttp2Server } from "../kit/wire/http2_server.ts";
import { QuestionSender } from "../kit/mesh/l7_requests.ts";
import { eventually } from "../kit/process/process.ts";
import { envoySidecar } from "../kit/mesh/sidecars.ts";
import { makeIssuer, rawToken } from "../kit/certs/tokens.ts";

const AUTH0 = "https://auth0.example";
const NOW = Math.floor(Date.now() / 1_000);

const okta = await makeIssuer("one");
const auth0 = await makeIssuer("two", "RS256");
const stranger = await makeIssuer("one");
const FOR_US = { aud: "api" };

const TOKENS = {
  plain: await okta.sign(FOR_US),
  admin: await okta.sign({ ...FOR_US, role: "admin" }),
  guest: await okta.sign({ ...FOR_US, role: "guest" }),
  listed: await okta.sign({ ...FOR_US, role: ["admin"] }),
  number: await okta.sign({ ...FOR_US, role: 1 }),
  nested: await okta.sign({ ...FOR_US, a: { b: "x" } }),
  nestedInList: await okta.sign({ ...FOR_US, a: [{ b: "x" }] }),
  expired: await okta.sign({ ...FOR_US, exp: NOW - 1_000 }),
  early: await okta.sign({ ...FOR_US, nbf: NOW + 1_000 }),
  elsewhere: await okta.sign({ aud: "other" }),
  forged: await stranger.sign({ ...FOR_US, role: "admin" }),
  unsigned: rawToken({ alg: "none" }, { iss: "https://idp.example", ...FOR_US, role: "admin" }),
  secret: rawToken({ alg: "HS256", kid: "one" }, { iss: "https://idp.example", ...FOR_US }),
  large: await okta.sign({ ...FOR_US, role: "admin", pad: "a".repeat(40_000) }),
  auth0: await auth0.sign({ iss: AUTH0 }),
} as const;

const provider = (name: string, issuer: string, jwks: string, more: object) => ({
  Kind: "jwt-provider",
  Name: name,
  Issuer: issuer,
  ...more,
  JSONWebKeySet: { Local: { JWKS: jwks } },
});
const of = (name: string, ...claims: readonly (readonly [string, string])[]) => ({
  Providers: [{
    Name: name,
    VerifyClaims: claims.map(([path, Value]) => ({ Path: path.split("."), Value })),
  }],
});
const allow = (PathPrefix: string, JWT?: object) => ({
  Action: "allow",
  HTTP: { PathPrefix },
  ...(JWT && { JWT }),
});
const SOURCES = [
  { Name: "free", Action: "allow" },
  {
    Name: "perm",
    Permissions: [
      { ...allow("/denied", of("okta", ["role", "guest"])), Action: "deny" },
      allow("/role", of("okta", ["role", "admin"])),
      allow("/nested", of("okta", ["a.b", "x"])),
      allow("/either", { Providers: [{ Name: "okta" }, { Name: "auth0" }] }),
      allow("/auth0", of("auth0")),
      allow("/"),
    ],
  },
];

type Name = keyof typeof TOKENS;
interface Asked {
  readonly source: string;
  readonly path: string;
  readonly fields: readonly string[];
  readonly name: string;
}

const asked = (source: string, path: string, token?: Name, ...more: readonly string[]): Asked => ({
  source,
  path,
  name: `${source} ${path} ${token} ${more.length}`,
  fields: [...(token ? [`authorization: Bearer ${TOKENS[token]}`] : []), ...more],
});
const ROLES: readonly Name[] = [
  ...["plain", "admin", "guest", "listed", "number", "expired", "early", "elsewhere"] as const,
  ...["forged", "unsigned", "secret", "auth0"] as const,
];
const QUESTIONS: readonly Asked[] = [
  asked("free", "/"),
  asked("free", "/", "plain"),
  asked("free", "/", "expired"),
  asked("free", "/", undefined, "x-okta: forged"),
  asked("free", "/", "auth0", "x-okta: forged"),
  ...ROLES.map((token) => asked("perm", "/role", token)),
  asked("perm", "/role"),
  asked("perm", `/role?access_token=${TOKENS.admin}`),
  asked("perm", `/role?a=1&access_token=${TOKENS.admin}`),
  ...(["nested", "nestedInList"] as const).map((token) => asked("perm", "/nested", token)),
  ...(["plain", "auth0", "expired"] as const).map((token) => asked("perm", "/either", token)),
  ...(["plain", "auth0"] as const).map((token) => asked("perm", "/auth0", token)),
  ...([undefined, "guest", "admin"] as const).map((token) => asked("perm", "/denied", token)),
  asked("perm", "/more"),
  asked("perm", "/more", "guest"),
  asked("stranger", "/", "admin"),
];

/** Says who was let in, and with what of the token. */
async function startApp(
  host: string,
  protocol: "http" | "grpc",
): Promise<{ readonly port: number } & AsyncDisposable> {
  const seen = (path: string, token = "", said = "") => `${path}_${token.slice(-8)}_${said}`;
  if (protocol === "grpc") {
    return await startHttp2Server({
      host,
      answer: ({ path, fields }) => {
        const value = seen(path, fieldOf(fields, "authorization"), fieldOf(fields, "x-okta"));
        return ["x-seen", value, "x-seen"];
      },
    });
  }
  return await startRawOrigin(({ head }) => {
    const [, token] = /^authorization: (.*\S)/im.exec(head) ?? [];
    const [, said] = /^x-okta: (\S+)/im.exec(head) ?? [];
    const value = seen(head.split(" ")[1] ?? "", token, said);
    return answerOf("", `HTTP/1.1 200 OK\r\nX-Seen: ${value}`);
  }, { host });
}

for (
  const [title, more, protocol] of [
    ["of permissions", {}, "http"],
    ["of all sources", { JWT: of("okta", ["role", "admin"]) }, "http"],
    ["of permissions, by gRPC", {}, "grpc"],
  ] as const
) {
  test(`requests with tokens are answered as by Envoy: demands ${title}`, async () => {
    await using consul = await startConsul({ defaultIntentionPolicy: "deny" });
    await using app = await startApp(consul.host, protocol);
    await consul.configEntry({ Kind: "service-defaults", Name: "db", Protocol: protocol });
    const Forwarding = { HeaderName: "x-okta" };
    await consul.configEntry(
      provider("okta", "https://idp.example", okta.jwks, { Audiences: ["api"], Forwarding }),
    );
    await consul.configEntry(provider("auth0", AUTH0, auth0.jwks, {}));
    await consul.configEntry({
      Kind: "service-intentions",
      Name: "db",
      Sources: SOURCES,
      ...more,
    });
    const start = async (id: string) => {
      const place = await consul.place();
      const service = { name: "db", id, port: app.port, sidecarPort: place.port };
      return { place, id: await consul.register(service) };
    };
    const [theirs, ours] = [await start("db-1"), await start("db-2")];
    await using _envoy = await envoySidecar(consul, theirs.id, {});
    await using postern = await consul.sidecar(ours.id);
    const sender = new QuestionSender(consul, protocol);
    const tell = async (place: typeof ours.place, { source, path, fields }: Asked) => {
      const { status, seen } = await sender.send(place, {
        source,
        method: "POST",
        path,
        fields,
        body: "hello",
      });
      return `${status} ${seen ?? ""}`;
    };
    const denied = protocol === "grpc" ? "7" : "403";
    const first = asked("perm", "/role", "admin");
    for (const { place } of [theirs, ours]) {
      await eventually("it judges", async () => !(await tell(place, first)).startsWith(denied));
    }
    const answersAt = async (place: typeof ours.place) => {
      const lines = [];
      for (const question of QUESTIONS) {
        lines.push(`${question.name}: ${await tell(place, question)}`);
      }
      return lines;
    };
    assert.deepEqual(await answersAt(ours.place), await answersAt(theirs.place));
    // Envoy takes it; one frame of HTTP/2 has no room for it.
    if (protocol === "http") {
      assert.equal(await tell(ours.place, asked("perm", "/role", "large")), "403 ");
    }
    assert.doesNotMatch(postern.process.output, /eyJ/);
  });
}
