import { CONSUL } from "../kit/mesh/consul.ts";
import { resolver } from "../stories/resolver.ts";

resolver(CONSUL);
