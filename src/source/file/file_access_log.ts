/**
 * `accessLog` of a configuration file, as a schema: Consul's `AccessLogs` with our spelling, and a format
 * that cannot be used is an error.
 *
 * @module
 */

import * as v from "valibot";
import type { LogFormat } from "../../http/mod.ts";
import { object, text } from "../../base/schema.ts";
import type { AccessLogPart, Content } from "../../snapshot/mod.ts";
import { formatFault } from "../consul/access_logs.ts";

const FORMAT_LIMIT = 64 * 1024;

const TextFormat = v.pipe(
  v.string("must be a text"),
  v.nonEmpty("must not be empty"),
  v.maxLength(FORMAT_LIMIT, `is longer than ${FORMAT_LIMIT} characters`),
  v.transform((text): LogFormat => ({ kind: "text", text })),
  usable(),
);

const JsonFormat = v.pipe(
  v.custom<object>(
    (value) => typeof value === "object" && value !== null && !Array.isArray(value),
    "must be an object",
  ),
  v.transform((value): LogFormat => ({ kind: "json", json: JSON.stringify(value) })),
  usable(),
);

export const FILE_ACCESS_LOG = v.pipe(
  object({
    type: v.optional(
      v.picklist(["stdout", "stderr", "file"], "must be stdout, stderr or file"),
      "stdout",
    ),
    path: v.optional(text()),
    jsonFormat: v.optional(JsonFormat),
    textFormat: v.optional(TextFormat),
    disableListenerLogs: v.optional(v.boolean("must be true or false"), false),
  }),
  v.check(
    ({ type, path }) => (type === "file") === (path !== undefined),
    'must have a path where its type is "file", and nowhere else',
  ),
  v.check(
    ({ jsonFormat, textFormat }) => !jsonFormat || !textFormat,
    "must not have both jsonFormat and textFormat",
  ),
  v.transform((given): Content<AccessLogPart> => ({
    to: given.type === "file" ? { kind: given.type, path: given.path ?? "" } : { kind: given.type },
    format: given.jsonFormat ?? given.textFormat ?? { kind: "default" },
    listeners: !given.disableListenerLogs,
  })),
);

function usable(): v.CheckAction<LogFormat, v.ErrorMessage<v.CheckIssue<LogFormat>>> {
  return v.check(
    (format: LogFormat) => formatFault(format) === undefined,
    ({ input }) => formatFault(input) ?? "",
  );
}
