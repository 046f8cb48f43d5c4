/**
 * A request that is answered with an error, thrown by whoever finds out.
 *
 * @module
 */

/** Becomes a `text/plain` reply with this status; `headers` go along (a 404 may carry an index). */
export class Refusal extends Error {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, text: string, headers: Readonly<Record<string, string>> = {}) {
    super(text);
    this.name = "Refusal";
    this.status = status;
    this.headers = headers;
  }
}
