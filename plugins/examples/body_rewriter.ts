/**
 * Example: replaces texts in pages, such as the internal address of a service by its public one. Pages that
 * are longer than the limit, of unknown length or compressed pass unchanged.
 *
 * @module
 */

import * as v from "valibot";
import type { HttpResponse, Plugin, PluginDefinition } from "../../src/plugin/api.ts";

const Config = v.strictObject({
  replace: v.record(v.pipe(v.string(), v.minLength(1)), v.string()),
  contentTypes: v.optional(v.array(v.string()), ["text/html"]),
  limitBytes: v.optional(v.pipe(v.number(), v.integer(), v.maxValue(1_048_576)), 262_144),
});

export default {
  name: "body_rewriter",
  api: 1,
  phase: "filter",
  config: Config,
  create(_host, { replace, contentTypes, limitBytes }): Plugin {
    const pairs = Object.entries(replace);
    const isMeant = ({ headers, body, status }: HttpResponse) => {
      const type = headers.get("content-type")?.split(";")[0]?.trim().toLowerCase() ?? "";
      return contentTypes.includes(type) && headers.get("content-encoding") === undefined &&
        body !== null && body.length !== null && body.length <= limitBytes && status !== 206;
    };
    return {
      onRequest(_args, next) {
        return next({
          response: (response) => isMeant(response) ? rewritten(response) : response,
        });
      },
    };

    async function rewritten(response: HttpResponse): Promise<HttpResponse> {
      const bytes = await response.body?.bytes(limitBytes);
      // A page that is not UTF-8 passes unchanged.
      let text: string;
      try {
        text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
      } catch {
        return response.with({ body: bytes ?? null });
      }
      for (const [from, to] of pairs) text = text.replaceAll(from, () => to);
      // These headers describe the page before the change.
      return response.with({ body: text, headers: { remove: ["etag", "content-md5", "digest"] } });
    }
  },
} satisfies PluginDefinition<typeof Config>;
