/**
 * Changes of the headers of a message: constant values are made once, values with operators for each
 * exchange.
 *
 * @module
 */

import type {
  HeaderChange,
  Host,
  HttpRequest,
  HttpResponse,
  RequestArgs,
} from "../../src/plugin/api.ts";

type ValueOf = ReturnType<Host["headerValue"]>;
type Made = readonly (readonly [name: string, valueOf: ValueOf])[];

/** One step: its values are computed before it sets any of them, as in Envoy. */
export class Changes {
  readonly #fixed: HeaderChange;
  /** `set` and `add` with operators in their values; `#fixed` then only has `remove`. */
  readonly #made: { readonly set: Made; readonly add: Made } | undefined;

  /** Throws if a value has an unknown operator. */
  constructor(written: HeaderChange, host: Host) {
    const { remove = [], set = {}, add = {} } = written;
    const isFixed = [...Object.values(set), ...Object.values(add)].every((text) =>
      !MADE.test(text)
    );
    this.#fixed = isFixed ? written : { remove };
    if (isFixed) return;
    const madeBy = (values: Readonly<Record<string, string>>): Made =>
      Object.entries(values).map(([name, text]) => [name, host.headerValue(text)]);
    this.#made = { set: madeBy(set), add: madeBy(add) };
  }

  ofRequest(args: RequestArgs, before: HttpRequest): HttpRequest {
    const request = before.with({ headers: this.#fixed });
    const made = this.#made;
    return made ? request.with({ headers: valuesOf(made, { ...args, request }) }) : request;
  }

  /** `request`: the request as it was sent on. */
  ofResponse(args: RequestArgs, request: HttpRequest, before: HttpResponse): HttpResponse {
    const response = before.with({ headers: this.#fixed });
    const made = this.#made;
    if (!made) return response;
    return response.with({ headers: valuesOf(made, { ...args, request }, response) });
  }
}

/** A value that is not constant: operators, characters that need encoding, outer white space, or empty. */
const MADE = /[^\t -$&-~]|^[\t ]|[\t ]$|^$/;

function valuesOf(
  { set, add }: { readonly set: Made; readonly add: Made },
  args: RequestArgs,
  response?: HttpResponse,
): HeaderChange {
  const values = (made: Made) =>
    Object.fromEntries(
      made.map(([name, valueOf]) => [name, valueOf(args, response)])
        .filter(([, value]) => value !== ""),
    );
  return { set: values(set), add: values(add) };
}
