import { CONSUL } from "../kit/consul.ts";
import { authorizeBoth } from "../stories/authorize_both.ts";

authorizeBoth(CONSUL);
