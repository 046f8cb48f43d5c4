/**
 * Judges the tokens of one issuer. All tokens at its locations must be valid, else an application could use
 * an invalid one. Results are cached while the keys stay the same.
 *
 * @module
 */

import type { Host, HttpRequest } from "../../src/plugin/api.ts";
import type { Claims } from "../../src/plugin/verified_claims.ts";
import type { KeySource, ProviderConfig } from "./config.ts";
import { KeySet, type KeyVerdict } from "./key_set.ts";
import { Locations } from "./locations.ts";
import { RemoteKeys } from "./remote_keys.ts";
import { type JwtToken, readToken, REFUSED, type Refused, whyRefused } from "./token.ts";

export type TokenOutcome =
  | { readonly kind: "good"; readonly claims: Claims; readonly payload: string }
  | { readonly kind: "refused"; readonly why: Refused };

const TOKENS_PER_REQUEST = 4;
/** Longer tokens are verified each time. */
const REMEMBERED_CHARS = 4_096;

/** The source of the current keys, and of newer ones. */
interface Keys {
  readonly current: KeySet | undefined;
  newerThan(known: KeySet | undefined): Promise<KeySet | undefined>;
}

export class Provider {
  readonly name: string;
  readonly config: ProviderConfig;
  readonly locations: Locations;
  readonly #keys: Keys;
  readonly #host: Host;
  #remembered = new Map<string, JwtToken>();
  #rememberedFor: KeySet | undefined;

  private constructor(name: string, config: ProviderConfig, host: Host, keys: Keys) {
    this.name = name;
    this.config = config;
    this.locations = new Locations(config.locations);
    this.#host = host;
    this.#keys = keys;
  }

  /** Throws if local keys are unusable. Without remote keys tokens are refused until they were fetched. */
  static async make(name: string, config: ProviderConfig, host: Host): Promise<Provider> {
    try {
      return new Provider(name, config, host, await keysOf(config.jsonWebKeySet, host));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new TypeError(`providers.${name}.jsonWebKeySet: ${reason}`, { cause: error });
    }
  }

  /** Synchronous if all results are cached. */
  check(request: HttpRequest): TokenOutcome | Promise<TokenOutcome> {
    const texts = this.locations.tokensOf(request);
    const [only] = texts;
    if (only === undefined) return refused(REFUSED.missing);
    if (texts.length === 1) return this.#judge(only);
    if (texts.length > TOKENS_PER_REQUEST) return refused(REFUSED.format);
    return Promise.all(texts.map((text) => this.#judge(text))).then((outcomes) =>
      outcomes.find(({ kind }) => kind === "refused") ?? outcomes[0] ?? refused(REFUSED.missing)
    );
  }

  #judge(text: string): TokenOutcome | Promise<TokenOutcome> {
    const known = this.#known(text);
    const token = known ?? readToken(text);
    if (typeof token === "string") return refused(token);
    const why = whyRefused(token.claims, this.config, this.#host.clock.wall());
    if (why) {
      this.#remembered.delete(text);
      return refused(why);
    }
    return known ? good(known) : this.#verify(token);
  }

  async #verify(token: JwtToken): Promise<TokenOutcome> {
    const known = this.#keys.current;
    let keys = known;
    let verdict = await verdictOf(keys, token);
    if (verdict === "noKey" || verdict === "noKeys") {
      keys = await this.#keys.newerThan(known);
      if (keys) verdict = await verdictOf(keys, token);
    }
    if (verdict !== "verified") return refused(REFUSED[verdict]);
    this.#remember(token, keys);
    return good(token);
  }

  #known(text: string): JwtToken | undefined {
    const { current } = this.#keys;
    return current && current === this.#rememberedFor ? this.#remembered.get(text) : undefined;
  }

  #remember(token: JwtToken, keys: KeySet | undefined): void {
    if (token.text.length > REMEMBERED_CHARS || keys !== this.#keys.current) return;
    if (keys !== this.#rememberedFor) this.#remembered.clear();
    this.#rememberedFor = keys;
    const { size } = this.config.cacheConfig;
    if (size === 0) return;
    // The oldest entry is dropped first.
    for (const oldest of this.#remembered.keys()) {
      if (this.#remembered.size < size) break;
      this.#remembered.delete(oldest);
    }
    this.#remembered.set(token.text, token);
  }
}

async function verdictOf(
  keys: KeySet | undefined,
  token: JwtToken,
): Promise<KeyVerdict | "noKeys"> {
  return await keys?.verify(token) ?? "noKeys";
}

function good({ claims, payload }: JwtToken): TokenOutcome {
  return { kind: "good", claims, payload };
}

function refused(why: Refused): TokenOutcome {
  return { kind: "refused", why };
}

async function keysOf(source: KeySource, host: Host): Promise<Keys> {
  if ("remote" in source) {
    const keys = new RemoteKeys(host, source.remote);
    if (!source.remote.fetchAsynchronously && !keys.current) await keys.fetch();
    host.spawn(`keys of ${source.remote.uri}`, (signal) => keys.follow(signal));
    return keys;
  }
  const text = "jwks" in source.local
    ? atob(source.local.jwks)
    : await (await fetch(fileUrl(source.local.filename))).text();
  return { current: KeySet.read(text), newerThan: () => Promise.resolve(undefined) };
}

function fileUrl(path: string): string {
  return `file://${encodeURI(path).replace(/[?#]/g, encodeURIComponent)}`;
}
