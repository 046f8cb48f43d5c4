export { BUILT_IN_NAMES, builtInSummaries, loadBuiltIn } from "./built_in_plugins.ts";
