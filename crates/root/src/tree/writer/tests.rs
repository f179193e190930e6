use super::*;
use crate::array::Number;
