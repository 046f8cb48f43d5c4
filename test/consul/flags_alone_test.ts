import { CONSUL } from "../kit/mesh/consul.ts";
import { flagsAlone } from "../stories/flags_alone.ts";

flagsAlone(CONSUL);
