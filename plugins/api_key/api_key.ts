/**
 * Admits requests with the key of a known client, and passes the client's name on. It follows Envoy's filter
 * `api_key_auth`, and knows keys by their SHA-256 only.
 *
 * @module
 */

import * as v from "valibot";
import type {
  Answer,
  HttpRequest,
  Plugin,
  PluginDefinition,
  StateKey,
} from "../../src/plugin/api.ts";
import { AUTHENTICATED } from "../../src/plugin/verified_claims.ts";
import { ApiKeySource, KeySources } from "./key_sources.ts";

const MAX_KEYS = 10_000;
const HeaderName = v.pipe(
  v.string(),
  v.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, "is no header's name"),
  v.toLowerCase(),
);
const Client = v.pipe(v.string(), v.regex(/^[\x21-\x7e]{1,128}$/, "is no name of a client"));

const Config = v.pipe(
  v.strictObject({
    credentials: v.optional(v.pipe(
      v.array(v.strictObject({
        client: Client,
        keySha256: v.pipe(
          v.string(),
          v.regex(/^[0-9A-Fa-f]{64}$/, "is no SHA-256 in hexadecimal"),
          v.toLowerCase(),
        ),
      })),
      v.minLength(1),
      v.maxLength(MAX_KEYS),
      v.check(
        (all) => new Set(all.map(({ keySha256 }) => keySha256)).size === all.length,
        "two clients have the same key",
      ),
    )),
    credentialsFile: v.optional(v.pipe(v.string(), v.regex(/^\//, "is no absolute path"))),
    keySources: v.optional(v.pipe(v.array(ApiKeySource), v.minLength(1), v.maxLength(8)), [
      { header: "x-api-key" },
    ]),
    forwarding: v.optional(
      v.strictObject({
        header: v.optional(HeaderName),
        hideCredentials: v.optional(v.boolean(), false),
      }),
      {},
    ),
  }),
  v.check(
    ({ credentials, credentialsFile }) =>
      (credentials === undefined) !== (credentialsFile === undefined),
    "want either credentials or credentialsFile",
  ),
  v.check(
    ({ forwarding: { header }, keySources }) =>
      !keySources.some((source) => "header" in source && source.header === header),
    "forwarding.header is a source of keys as well",
  ),
);
const RouteConfig = v.strictObject({ allowedClients: v.pipe(v.array(Client), v.minLength(1)) });
type RouteConfig = v.InferOutput<typeof RouteConfig>;

/** The client's name by the SHA-256 of its key, in hexadecimal. */
type Clients = ReadonlyMap<string, string>;
const LINE = /^([\x21-\x39\x3b-\x7e]{1,128}):([0-9A-Fa-f]{64})$/;

/** Longer keys are refused. */
const MAX_CHARS = 1_024;
/** The client that was found, for the configuration of the route. */
const CLIENT: StateKey<string> = { description: "api_key: the client" };
const encoder = new TextEncoder();

export default {
  name: "api_key",
  api: 1,
  phase: "guard",
  config: Config,
  routeConfig: RouteConfig,
  async create(host, config): Promise<Plugin<RouteConfig>> {
    const { credentials = [], credentialsFile, keySources, forwarding } = config;
    const { header, hideCredentials } = forwarding;
    const sources = new KeySources(keySources);
    let clients: Clients = new Map(credentials.map(({ client, keySha256 }) => [keySha256, client]));
    if (credentialsFile !== undefined) {
      const file = await host.file(credentialsFile, { parse: readClients });
      clients = file.value;
      file.onChange((read) => clients = read);
    }
    const judged = host.stats.counter("requests", {
      help: "Requests by the result of authentication",
      labels: { result: ["allowed", "unauthorized", "forbidden"] },
    });
    const deny = ({ scheme, authority, path }: HttpRequest): Answer => {
      judged.add(1, { result: "unauthorized" });
      const [base = ""] = path.split("?", 1);
      const realm = `${scheme || "http"}://${authority}${base}`.slice(0, 256).replace(/["\\]/g, "");
      return host.refuse("unauthenticated", "Client authentication failed.")
        .with({ headers: { set: { "www-authenticate": `${sources.scheme} realm="${realm}"` } } });
    };
    return {
      onRequest({ request, exchange, routeConfig }, next) {
        if (routeConfig) {
          // The hook was called for the listener before, which found the client.
          if (routeConfig.allowedClients.includes(exchange.get(CLIENT) ?? "")) return next();
          judged.add(1, { result: "forbidden" });
          return host.refuse("denied", "Client is forbidden.");
        }
        const key = sources.keyIn(request);
        if (key === undefined || key.length > MAX_CHARS) return deny(request);
        return crypto.subtle.digest("SHA-256", encoder.encode(key)).then((digest) => {
          // A caller cannot choose the digest of a guess, so looking it up tells nothing about a key.
          const client = clients.get(new Uint8Array(digest).toHex());
          if (client === undefined) return deny(request);
          judged.add(1, { result: "allowed" });
          exchange.set(AUTHENTICATED, client);
          exchange.set(CLIENT, client);
          const shown = hideCredentials ? sources.without(request) : request;
          const set = header === undefined ? {} : { [header]: client };
          return next({ request: header === undefined ? shown : shown.with({ headers: { set } }) });
        });
      },
    };
  },
} satisfies PluginDefinition<typeof Config, typeof RouteConfig>;

/** Lines `CLIENT:SHA256`. Throws an error that names the line. */
function readClients(text: string): Clients {
  const clients = new Map<string, string>();
  for (const [index, raw] of text.split("\n").entries()) {
    const line = raw.trim();
    if (line === "" || line.startsWith("#")) continue;
    const fault = (what: string) => new TypeError(`line ${index + 1}: ${what}`);
    const [, client = "", digest = ""] = LINE.exec(line) ?? [];
    if (client === "") throw fault("want CLIENT:SHA256, the digest in hexadecimal");
    const key = digest.toLowerCase();
    if (clients.has(key)) throw fault("another client has the same key");
    clients.set(key, client);
    if (clients.size > MAX_KEYS) throw fault(`more than ${MAX_KEYS} keys`);
  }
  return clients;
}
