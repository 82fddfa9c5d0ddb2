//! Values that users choose by name.

/// A value that users choose by name, such as a traffic pattern.
pub trait NamedChoice: Copy + PartialEq + Send + Sync + 'static {
    /// Every value with its name and a summary of one line.
    const CHOICES: &'static [(Self, &'static str, &'static str)];

    /// The name of this value.
    fn choice_name(self) -> &'static str {
        let choice = Self::CHOICES.iter().find(|(value, ..)| *value == self);
        choice.map_or("", |(_, name, _)| name)
    }

    /// The value of this name.
    fn from_name(name: &str) -> Option<Self> {
        let choice = Self::CHOICES.iter().find(|(_, known, _)| *known == name);
        choice.map(|(value, ..)| *value)
    }
}

/// Defines an enum whose variants are chosen by name: `Variant = "name": "summary"`.
macro_rules! named_choices {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $text:literal: $summary:literal,)+
    }) => {
        $(#[$meta])*
        pub enum $name {
            $(#[doc = $summary] $(#[$variant_meta])* $variant,)+
        }

        impl $name {
            /// The name that users write.
            pub fn name(self) -> &'static str {
                $crate::NamedChoice::choice_name(self)
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(name: &str) -> Result<$name, String> {
                $crate::NamedChoice::from_name(name)
                    .ok_or_else(|| format!("'{name}' is none of {}", [$($text),+].join(", ")))
            }
        }

        impl $crate::NamedChoice for $name {
            const CHOICES: &'static [($name, &'static str, &'static str)] =
                &[$(($name::$variant, $text, $summary)),+];
        }
    };
}
pub(crate) use named_choices;
