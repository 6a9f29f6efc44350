"""Inflectional endings by language, and relatedness of lemmas."""

# ruff: noqa: E501  (one language a paragraph)

from __future__ import annotations

from itertools import takewhile

# Letters that inflection replaces at most, and initial letters that related lemmas share at least.
LONGEST_CUT = 3
SAME_LETTERS = 4
ENDINGS = {
    "en": "s es ed d ing er ers ly ion ions al ally ment ments ness y ies ied ier iest est 's able",
    "de": "e en er es em n s st t te ten ter test tet ete eten end ende enden ender endes ung ungen lich liche lichen licher "
    "liches isch ische ischen ischer isches ig ige igen iger iges keit heit heiten in innen nis nisse ern ere eren erer",
    "fr": "e s es x aux ale ales al elle elles el els er ez é ée és ées ent ant ante ants antes ait aient era eront ons r ment "
    "ion ions eur euse eurs euses if ive ifs ives ique iques que ques ien ienne iens iennes ir i ie is ies it issent it u ue us ues",
    "es": "s es a as o os e en an ar er ir ado ada ados adas ido ida idos idas ando iendo ó aba aban ará ió ieron aron mente "
    "ción ciones dad dades ico ica icos icas al ales or ora ores oras oso osa osos osas ante antes ente entes ito ita n z ces",
    "it": "o a i e he hi ato ata ati ate uto uta uti ute ito ita iti ite are ere ire ano ono ava avano ando endo rà ò ì mente "
    "zione zioni tà ico ica ici iche ale ali ore ori oso osa osi ose ante anti ente enti ivo iva ivi ive io ia ie ii",
    "pt": "s es a as o os e em am ar er ir ado ada ados adas ido ida idos idas ando endo ou ava avam ará iu eram aram mente ção "
    "ções ões ão ãos ães dade dades ico ica icos icas al ais or ora ores oras oso osa osos osas ante antes ente entes m ns éis eis",
    "nl": "e en s n t te ten de den d ing ingen er ers end ende lijk lijke lijks heid heden je jes isch ische tie ties eren eerd eerde 's",
    "pl": "a ą e ę i o ó u y ego ej emu ym ych ymi im ich imi iego iej iemu ie ia ią ię iu iem iom ami ach om ów owi em owie "
    "ał ała ało ali ały ić yć ać eć any ana ane anych anego anej ony ona one onych onego onej ć je jąc jący jąca jące nie nia niu "
    "niem niom niach ek ki ka kę ką ku kiem kach kom ość ości ością c ce cy dz dze ż że sz szy ź",
    "sv": "a e n t s en et ar er or na an arna erna orna ade at ad ades as de da t te ta tt r are ast aste ande ende ning ningar "
    "ningen ningarna het heter isk iskt iska lig ligt liga ns ts ens ets arnas ernas",
    "da": "e en er et s ens erne ene ers ets n t r ede et te ende else elser elsen elserne ing inger ingen ingerne isk iske lig lige ligt "
    "hed heder ere est este",
    "cs": "a u y e i o ou ě í é á ý ů ům ám ech ích ách emi ami em ím ém ého ému ými ých ší ejší ost osti ostí ní ného nému ním nými ných "
    "ová ové ový ového ovou ově al ala alo ali el ela elo eli en ena eno eny án ána áno ány it at ět ovat uje ují ován ována ováno nost "
    "nosti ce ci cí k ka ky ku kem kou ek",
    "nb": "a en et er ene ens ets n t r ede te de ende else elser elsen elsene ing inger ingen ingene isk iske lig lige ligt het heter ere est este",
    "hu": "a e i á é ok ek ök ak k t ot et öt at ban ben ba be ból ből ra re ról ről n on en ön nál nél tól től hoz hez höz val vel ig nak nek ért ja je "
    "jai jei ai ei uk ük juk jük os es ös as s ú ű ús ott ett ött tt ik nak nek va ve ás és ása ése ását ését ni ható hető abb ebb talan telen ság ség an en ul ül",
    "ro": "a ă e i u l ul le lui ilor lor ii ile uri urile urilor elor eles ele ei ea ele at ată ate ați it ită ite iți ut ută ute uți ant antă ante anți "
    "ic ică ice ici al ală ale ali ar ară are ari os oasă oase oși ez ează ind ând are ere ire area erea irea ții ție ția iune iuni",
    "fi": "a ä n t i in en ia iä ja jä ta tä tta ttä ssa ssä sta stä lla llä lta ltä lle na nä ksi issa issä ista istä illa illä ilta iltä ille ien iin ihin oin "
    "ina inä iksi inen ista istä isen isessa isessä iset isia isiä us ys uksen yksen ukset ykset uksia yksiä ut yt nut nyt tu ty ttu tty tuu tyy ee ii oo aa ää vat vät va vä maan mään mista mistä minen miseen misen",
    "tr": "ı i u ü sı si su sü nın nin nun nün ın in un ün da de ta te dan den tan ten nda nde ndan nden a e ya ye na ne lar ler ları leri "
    "larda lerde lardan lerden ların lerin lı li lu lü sız siz suz süz lık lik luk lük dır dir dur dür tır tir mış miş muş müş dı di du dü "
    "tı ti ıyor iyor uyor üyor lan len ması mesi ma me mak mek makta mekte ar er ır ir ur ür la le yla yle ca ce",
}  # fmt: skip
"""Endings that inflection adds to words, by language."""


def related(one: str, other: str) -> bool:
    """Whether two lemmas are equal, or derived from each other: equal except for their last letters."""
    pairs = zip(one.lower(), other.lower(), strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return common >= SAME_LETTERS and common * 4 >= 3 * min(len(one), len(other))
