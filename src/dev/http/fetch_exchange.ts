/**
 * One exchange of our codecs as a `Request` and its `Response`. The request's signal aborts when its
 * client has gone.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { messageOf } from "../../base/mod.ts";
import {
  addField,
  FIELD,
  type Fields,
  type ServerExchange,
  UNKNOWN_LENGTH,
} from "../../http/mod.ts";

export type FetchHandler = (request: Request) => Response | Promise<Response>;

interface FetchExchangeOptions {
  readonly fetch: FetchHandler;
  readonly onError: (message: string) => void;
}

const MAX_BODY_BYTES = 8 * 1024 * 1024;

export class FetchExchange {
  readonly #exchange: ServerExchange;
  readonly #options: FetchExchangeOptions;
  readonly #gone = new AbortController();

  /** Takes the exchange over. */
  constructor(exchange: ServerExchange, options: FetchExchangeOptions) {
    this.#exchange = exchange;
    this.#options = options;
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    exchange.events = {
      onData: (chunk) => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > MAX_BODY_BYTES) exchange.reset("overflow");
      },
      onEnd: () => void this.#answer(Buffer.concat(chunks)),
      onDrain: () => {},
      onReset: () => this.#gone.abort(),
    };
    if (exchange.request.expectsContinue) exchange.inform({ status: 100, length: 0, fields: [] });
    if (exchange.endsWithHead) void this.#answer(new Uint8Array());
  }

  async #answer(body: Uint8Array): Promise<void> {
    const { method, path } = this.#exchange.request;
    try {
      await this.#send(await this.#options.fetch(this.#request(body)));
    } catch (error) {
      if (this.#gone.signal.aborted) return;
      this.#options.onError(`${method} ${path}: ${messageOf(error)}`);
      this.#exchange.reset("internal");
    }
  }

  #request(body: Uint8Array): Request {
    const { method, path, fields } = this.#exchange.request;
    const headers = new Headers();
    for (let at = 0; at < fields.length; at += FIELD) {
      headers.append(fields[at] ?? "", fields[at + 1] ?? "");
    }
    return new Request(`http://agent${path}`, {
      method,
      headers,
      signal: this.#gone.signal,
      ...body.length > 0 && method !== "GET" && method !== "HEAD" ? { body: body.slice() } : {},
    });
  }

  async #send({ status, headers, body }: Response): Promise<void> {
    const exchange = this.#exchange;
    const fields: Fields = [];
    for (const [name, value] of headers) {
      if (exchange.request.version === "HTTP/2") addField(fields, name, value);
      else fields.push(name, value, spelled(name));
    }
    if (this.#gone.signal.aborted) return await body?.cancel();
    exchange.respond({ status, length: body ? UNKNOWN_LENGTH : 0, fields }, body === null);
    if (!body) return;
    for await (const chunk of body) exchange.send(chunk);
    exchange.end();
  }
}

/** `x-consul-index` as `X-Consul-Index`, as Go writes names. */
function spelled(name: string): string {
  return name.replace(/(?<=^|-)[a-z]/g, (letter) => letter.toUpperCase());
}
